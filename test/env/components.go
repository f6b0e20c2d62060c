package env

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	apiserverv1beta1 "k8s.io/apiserver/pkg/apis/apiserver/v1beta1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/AlaudaDevops/countersign/test/env/pki"
)

const (
	nameEtcd              = "etcd"
	nameAPIServer         = "kube-apiserver"
	nameControllerManager = "kube-controller-manager"
	nameIssuer            = "issuer"
	nameEgress            = "egress"

	// ServiceAccountIssuer is the iss of the cluster's service-account tokens.
	ServiceAccountIssuer = "https://kubernetes.default.svc.cluster.local"
	// ClientID is the audience of people's tokens at the API server.
	ClientID = "countersign"

	serviceRange      = "10.96.0.0/16"
	kubernetesService = "10.96.0.1" // the first address of the range is the API server's own

	noControllers = "none"
)

// DefaultControllers run in every cluster. Node and volume controllers are left out: they would
// evict pods from nodes that tests only pretend.
func DefaultControllers() []string {
	return []string{
		"clusterrole-aggregation-controller",
		"cronjob-controller",
		"daemonset-controller",
		"deployment-controller",
		"endpointslice-controller",
		"garbage-collector-controller",
		"job-controller",
		"namespace-controller",
		"replicaset-controller",
		"resourcequota-controller",
		"root-ca-certificate-publisher-controller",
		"serviceaccount-controller",
		"serviceaccount-token-controller",
		"statefulset-controller",
		"ttl-after-finished-controller",
		"validatingadmissionpolicy-status-controller",
	}
}

func (c *Cluster) etcdCommand() (command, error) {
	path, err := c.options.binary(nameEtcd)
	if err != nil {
		return command{}, err
	}
	clients := "unix://" + c.layout.etcdSocket()
	peers := "unix://" + c.layout.socket("peer.sock")
	return command{name: nameEtcd, path: path, args: []string{
		"--data-dir=" + c.layout.etcdData(),
		"--listen-client-urls=" + clients,
		"--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers,
		"--initial-advertise-peer-urls=" + peers,
		"--initial-cluster=default=" + peers,
		"--unsafe-no-fsync",
		// One member elects itself; short intervals only shorten the wait for that.
		"--heartbeat-interval=20",
		"--election-timeout=200",
		"--log-level=error",
	}}, nil
}

func (c *Cluster) apiServerCommand() (command, error) {
	path, err := c.options.binary(nameAPIServer)
	if err != nil {
		return command{}, err
	}
	configured, err := c.apiServerFiles()
	if err != nil {
		return command{}, err
	}
	host, port, _ := strings.Cut(c.apiAddress, ":")
	args := []string{
		"--etcd-servers=unix://" + c.layout.etcdSocket(),
		"--bind-address=" + host,
		"--advertise-address=" + host,
		"--secure-port=" + port,
		// Endpoints may not hold loopback addresses, so the kubernetes Service gets none.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceRange,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=" + ServiceAccountIssuer,
		"--allow-privileged",
		"--event-ttl=1h",
		"--kubelet-preferred-address-types=InternalIP",
	}
	args = append(args, configured...)
	return command{name: nameAPIServer, path: path, args: append(args, c.options.apiServerArgs...)}, nil
}

// apiServerFiles writes the files that the API server reads and returns the flags that name them.
func (c *Cluster) apiServerFiles() ([]string, error) {
	serving, err := c.issueServing("apiserver", "127.0.0.1", "localhost", kubernetesService,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return nil, err
	}
	kubelet, err := c.issueClientFiles("apiserver-kubelet-client", "kube-apiserver-kubelet-client", groupMasters)
	if err != nil {
		return nil, err
	}
	args := []string{
		"--tls-cert-file=" + serving.cert,
		"--tls-private-key-file=" + serving.key,
		"--kubelet-client-certificate=" + kubelet.cert,
		"--kubelet-client-key=" + kubelet.key,
		"--client-ca-file=" + c.clientCAFile(),
		"--service-account-key-file=" + c.serviceAccountKey(),
		"--service-account-signing-key-file=" + c.serviceAccountKey(),
	}
	audit, err := c.auditFlags()
	if err != nil {
		return nil, err
	}
	args = append(args, audit...)
	for flag, config := range map[string]any{
		"authentication-config":       c.authentication(),
		"egress-selector-config-file": c.egressSelector(),
	} {
		file, err := c.writeYAML(flag+".yaml", config)
		if err != nil {
			return nil, err
		}
		args = append(args, "--"+flag+"="+file)
	}
	slices.Sort(args) // the flags' digest decides whether a detached server is started again
	return args, nil
}

// authentication lets the API server accept people's tokens from the cluster's own issuer. The
// user name is the verified email, the UID the issuer's subject.
func (c *Cluster) authentication() apiserverv1.AuthenticationConfiguration {
	return apiserverv1.AuthenticationConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "AuthenticationConfiguration"},
		JWT: []apiserverv1.JWTAuthenticator{{
			Issuer: apiserverv1.Issuer{
				URL:                  c.issuer.URL(),
				CertificateAuthority: string(c.ca.CertPEM()),
				Audiences:            []string{ClientID},
			},
			ClaimMappings: apiserverv1.ClaimMappings{
				Username: apiserverv1.PrefixedClaimOrExpression{Claim: "email", Prefix: ptr.To("")},
				Groups:   apiserverv1.PrefixedClaimOrExpression{Claim: "groups", Prefix: ptr.To("")},
				UID:      apiserverv1.ClaimOrExpression{Claim: "sub"},
			},
			UserValidationRules: []apiserverv1.UserValidationRule{
				{Expression: "!user.username.startsWith('system:')", Message: "people have no user name that begins with system:"},
				{Expression: "user.groups.all(group, !group.startsWith('system:'))", Message: "people are in no group that begins with system:"},
			},
		}},
	}
}

func (c *Cluster) egressSelector() apiserverv1beta1.EgressSelectorConfiguration {
	return apiserverv1beta1.EgressSelectorConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1beta1.SchemeGroupVersion.String(), Kind: "EgressSelectorConfiguration"},
		EgressSelections: []apiserverv1beta1.EgressSelection{{
			Name: "cluster",
			Connection: apiserverv1beta1.Connection{
				ProxyProtocol: apiserverv1beta1.ProtocolHTTPConnect,
				Transport:     &apiserverv1beta1.Transport{UDS: &apiserverv1beta1.UDSTransport{UDSName: c.layout.egressSocket()}},
			},
		}},
	}
}

func (c *Cluster) auditFlags() ([]string, error) {
	if c.options.auditLevel == "" {
		return nil, nil
	}
	policy, err := c.writeYAML("audit-"+string(c.options.auditLevel)+".yaml", auditv1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		Rules:      []auditv1.PolicyRule{{Level: c.options.auditLevel}},
		OmitStages: []auditv1.Stage{auditv1.StageRequestReceived},
	})
	// Blocking: whoever has an answer finds its line in the log.
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + c.layout.auditLog(), "--audit-log-mode=blocking"}, err
}

func (c *Cluster) controllerManagerCommand() (command, error) {
	path, err := c.options.binary(nameControllerManager)
	if err != nil {
		return command{}, err
	}
	kubeconfig, err := c.componentKubeconfig(nameControllerManager, "system:kube-controller-manager")
	if err != nil {
		return command{}, err
	}
	return command{name: nameControllerManager, path: path, args: []string{
		"--kubeconfig=" + kubeconfig,
		// The first mention of a controller counts.
		"--controllers=" + strings.Join(slices.Concat(c.options.controllers, DefaultControllers()), ","),
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + c.serviceAccountKey(),
		"--root-ca-file=" + c.caFile(),
		"--leader-elect=false",
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
		"--secure-port=0",
	}}, nil
}

func (c *Cluster) runsControllers() bool {
	return !slices.Contains(c.options.controllers, noControllers)
}

// files are the paths of a certificate and its key.
type files struct{ cert, key string }

// issueServing returns a serving certificate that is kept: issuing it anew at each start would make
// a detached server's flags the same but its certificate another.
func (c *Cluster) issueServing(name string, hosts ...string) (files, error) {
	return c.kept(name, func() (pki.KeyPair, error) { return c.ca.IssueServer(hosts...) })
}

func (c *Cluster) issueClientFiles(name, user string, groups ...string) (files, error) {
	return c.kept(name, func() (pki.KeyPair, error) { return c.clientCA.IssueClient(user, groups...) })
}

func (c *Cluster) kept(name string, issue func() (pki.KeyPair, error)) (files, error) {
	base := filepath.Join(c.layout.pki(), name)
	if exists(base+".crt") && exists(base+".key") {
		return files{cert: base + ".crt", key: base + ".key"}, nil
	}
	pair, err := issue()
	if err != nil {
		return files{}, fmt.Errorf("no certificate for %s: %w", name, err)
	}
	cert, key, err := pair.Write(c.layout.pki(), name)
	return files{cert: cert, key: key}, err
}

func (c *Cluster) writeYAML(name string, content any) (string, error) {
	encoded, err := yaml.Marshal(content)
	if err != nil {
		return "", err
	}
	return c.layout.writeConf(name, encoded)
}
