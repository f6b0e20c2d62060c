package env

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// Names of what RunTekton starts, of their logs and ports.
const (
	nameScheduler = "kube-scheduler"
	nameKWOK      = "kwok"
	nameTekton    = "tekton-controller"

	tektonNamespace = "tekton-pipelines"
	tektonAccount   = "tekton-pipelines-controller"
	// pretendedNode is the one node that Tekton's pods, and nothing else, tolerate.
	pretendedNode = "pretended"
	// tektonTokenTTL is how long the controller's token lasts; every start renews it, and it is read again.
	tektonTokenTTL = 30 * 24 * time.Hour
)

// PodHold is an annotation of pods on the pretended node: with it a pod runs until PodFinish says how it ends, Succeeded
// or Failed; without it a pod succeeds at once. Tekton hands annotations of pipelines and tasks down to pods.
const (
	PodHold   = "testbed.countersign.dev/hold"
	PodFinish = "testbed.countersign.dev/finish"
)

//go:embed tekton-stages.yaml
var stages string

//go:embed tekton-node.yaml
var pretended string

// RunTekton starts the real Tekton pipelines controller from test/ecosystem, with what finishes its pods: the scheduler,
// and KWOK, which pretends one node. Tekton's webhook is left out, so nothing is defaulted or refused before it reaches
// the controller. In a detached cluster it may be called again at any time.
func (c *Cluster) RunTekton(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		c.installTekton, c.runScheduler, c.runKWOK, c.runTektonController,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("the start of Tekton failed: %w", err)
		}
	}
	return nil
}

// installTekton applies Tekton's own manifests. Its CRDs name its webhook for the conversion between versions, of which
// one is used here.
func (c *Cluster) installTekton(ctx context.Context) error {
	anyBinary, err := c.options.binary(nameTekton)
	if err != nil {
		return err
	}
	manifests, err := readManifests([]string{filepath.Join(filepath.Dir(anyBinary), "tekton")})
	if err != nil {
		return err
	}
	for i, manifest := range manifests {
		manifests[i] = withoutConversion(manifest)
	}
	return c.Apply(ctx, c.Admin(), append(manifests, pretended)...)
}

// withoutConversion cuts the stanza spec.conversion, which runs to the end of each of Tekton's CRDs.
func withoutConversion(manifest string) string {
	if !strings.Contains(manifest, "kind: CustomResourceDefinition") {
		return manifest
	}
	lines := strings.Split(manifest, "\n")
	start := slices.Index(lines, "  conversion:")
	if start < 0 {
		return manifest
	}
	end := start + 1
	for end < len(lines) && (strings.HasPrefix(lines[end], "   ") || lines[end] == "") {
		end++
	}
	return strings.Join(slices.Delete(lines, start, end), "\n")
}

func (c *Cluster) runScheduler(ctx context.Context) error {
	kubeconfig, err := c.componentKubeconfig(nameScheduler, "system:kube-scheduler")
	if err != nil {
		return err
	}
	return c.runPart(ctx, nameScheduler, nil, c.apiReady,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--leader-elect=false", "--secure-port=0")
}

func (c *Cluster) runKWOK(ctx context.Context) error {
	kubeconfig, err := c.componentKubeconfig(nameKWOK, "system:kwok", groupMasters)
	if err != nil {
		return err
	}
	config, err := c.layout.writeConf("kwok-stages.yaml", []byte(stages))
	if err != nil {
		return err
	}
	return c.runPart(ctx, nameKWOK, nil, c.nodeReady,
		"--kubeconfig="+kubeconfig, "--config="+config, "--manage-single-node="+pretendedNode)
}

func (c *Cluster) nodeReady(ctx context.Context) error {
	node, err := c.client.CoreV1().Nodes().Get(ctx, pretendedNode, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the node %s is not ready", pretendedNode)
}

func (c *Cluster) runTektonController(ctx context.Context) error {
	kubeconfig, err := c.tektonKubeconfig(ctx)
	if err != nil {
		return err
	}
	probes, err := c.ports.address(nameTekton)
	if err != nil {
		return err
	}
	profiling, err := c.ports.address(nameTekton + "-profiling")
	if err != nil {
		return err
	}
	metrics, err := c.ports.address(nameTekton + "-metrics")
	if err != nil {
		return err
	}
	args := []string{"-kubeconfig=" + kubeconfig, "-disable-ha"}
	for _, image := range []string{"entrypoint-image", "nop-image", "sidecarlogresults-image", "workingdirinit-image", "shell-image", "shell-image-win"} {
		args = append(args, "-"+image+"=pretended/"+image)
	}
	environment := []string{
		"SYSTEM_NAMESPACE=" + tektonNamespace, "METRICS_DOMAIN=tekton.dev/pipeline", "KUBERNETES_MIN_VERSION=v1.28.0",
		"CONFIG_DEFAULTS_NAME=config-defaults", "CONFIG_LOGGING_NAME=config-logging",
		"CONFIG_OBSERVABILITY_NAME=config-observability", "CONFIG_FEATURE_FLAGS_NAME=feature-flags",
		"CONFIG_LEADERELECTION_NAME=config-leader-election-controller", "CONFIG_SPIRE=config-spire",
		"PROBES_PORT=" + portOf(probes), "PROFILING_PORT=" + portOf(profiling),
		"METRICS_PROMETHEUS_PORT=" + portOf(metrics),
	}
	return c.runPart(ctx, nameTekton, environment, healthy("http://"+probes+"/readiness"), args...)
}

// tektonKubeconfig lets the controller act as its own service account.
func (c *Cluster) tektonKubeconfig(ctx context.Context) (string, error) {
	answer, err := c.client.CoreV1().ServiceAccounts(tektonNamespace).CreateToken(ctx, tektonAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(tektonTokenTTL.Seconds()))},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("service account %s/%s got no token: %w", tektonNamespace, tektonAccount, err)
	}
	token, err := c.layout.writeConf(nameTekton+".token", []byte(answer.Status.Token))
	if err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[nameTekton] = &clientcmdapi.Cluster{Server: c.admin.Host, CertificateAuthorityData: c.ca.CertPEM()}
	config.AuthInfos[nameTekton] = &clientcmdapi.AuthInfo{TokenFile: token}
	config.Contexts[nameTekton] = &clientcmdapi.Context{Cluster: nameTekton, AuthInfo: nameTekton}
	config.CurrentContext = nameTekton
	content, err := clientcmd.Write(*config)
	if err != nil {
		return "", err
	}
	return c.layout.writeConf(nameTekton+".kubeconfig", content)
}

func (c *Cluster) runPart(ctx context.Context, name string, environment []string, ready func(context.Context) error, args ...string) error {
	path, err := c.options.binary(name)
	if err != nil {
		return err
	}
	return c.Run(ctx, Program{Name: name, Path: path, Args: args, Env: environment, Ready: ready})
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// healthy returns a probe that succeeds when the address answers 200.
func healthy(url string) func(context.Context) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}
