package env

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/AlaudaDevops/countersign/test/env/issuer"
	"github.com/AlaudaDevops/countersign/test/env/pki"
)

const (
	adminUser    = "kubernetes-admin"
	groupMasters = "system:masters"

	// tokenSeconds is the life of tokens from Cluster.Token.
	tokenSeconds = 3600
	// unlimited turns off the client's own rate limit: tests measure the server, not the client.
	unlimited = -1
)

// Admin returns a configuration that may do everything (group system:masters, which RBAC does not
// restrict). It is a copy that the caller may change.
func (c *Cluster) Admin() *rest.Config { return rest.CopyConfig(c.admin) }

// Client returns a typed client of the administrator.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// CA returns the authority behind every serving certificate of the cluster. Webhooks and tools that
// tests serve take theirs from it.
func (c *Cluster) CA() *pki.CA { return c.ca }

// Issuer returns the issuer of people's tokens; the API server accepts those with the audience
// ClientID.
func (c *Cluster) Issuer() *issuer.Issuer { return c.issuer }

// AuthenticationConfig returns the path of the API server's AuthenticationConfiguration.
func (c *Cluster) AuthenticationConfig() string { return c.layout.conf("authentication-config.yaml") }

// StateDir returns the directory of the cluster's data, keys and logs.
func (c *Cluster) StateDir() string { return c.layout.dir }

// Config returns a configuration that authenticates by a client certificate as the user with these
// groups (and system:authenticated, which the server adds). It panics when no certificate can be
// made, which only a broken random source causes.
func (c *Cluster) Config(user string, groups ...string) *rest.Config {
	cfg, err := c.certificateConfig(user, groups...)
	if err != nil {
		panic(fmt.Sprintf("no client certificate for %s: %v", user, err))
	}
	return cfg
}

func (c *Cluster) certificateConfig(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.clientCA.IssueClient(user, groups...)
	if err != nil {
		return nil, err
	}
	cfg := c.Anonymous()
	cfg.CertData, cfg.KeyData = pair.CertPEM, pair.KeyPEM
	return cfg, nil
}

// Anonymous returns a configuration without credentials.
func (c *Cluster) Anonymous() *rest.Config {
	return &rest.Config{
		Host:            "https://" + c.apiAddress,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.CertPEM()},
		QPS:             unlimited,
	}
}

// Person returns a configuration that authenticates by a token of the issuer, valid for
// issuer.DefaultTTL. The email is the user name; equal emails have an equal UID.
func (c *Cluster) Person(email string, groups ...string) (*rest.Config, error) {
	token, err := c.issuer.Mint(issuer.Claims{
		Subject:  Subject(email),
		Email:    email,
		Groups:   groups,
		Audience: []string{ClientID},
	})
	if err != nil {
		return nil, err
	}
	return c.Bearer(token), nil
}

// Bearer returns a configuration that authenticates by the token.
func (c *Cluster) Bearer(token string) *rest.Config {
	cfg := c.Anonymous()
	cfg.BearerToken = token
	return cfg
}

// Subject returns the identifier that the issuer keeps for the person with this email (sub); the
// cluster takes it for the user's UID.
func Subject(email string) string {
	sum := sha256.Sum256([]byte(email))
	return hex.EncodeToString(sum[:8])
}

// Token returns a service account's token for the audience, "" meaning the API server's, valid for
// one hour. With a pod it is bound to that pod by name and UID and dies with it.
func (c *Cluster) Token(ctx context.Context, namespace, serviceAccount, audience string, pod *corev1.Pod) (string, error) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)},
	}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	answer, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("no token for service account %s/%s: %w", namespace, serviceAccount, err)
	}
	return answer.Status.Token, nil
}

// Kubeconfig returns the configuration as a kubeconfig file whose cluster, user and context are all
// called name. It holds the credentials.
func (c *Cluster) Kubeconfig(name string, cfg *rest.Config) ([]byte, error) {
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   cfg.Host,
			CertificateAuthorityData: cfg.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: cfg.CertData,
			ClientKeyData:         cfg.KeyData,
			Token:                 cfg.BearerToken,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// componentKubeconfig writes the kubeconfig of one of the cluster's own components, once: its
// certificate is kept with it.
func (c *Cluster) componentKubeconfig(name, user string, groups ...string) (string, error) {
	path := c.layout.conf(name + ".kubeconfig")
	if exists(path) {
		return path, nil
	}
	cfg, err := c.certificateConfig(user, groups...)
	if err != nil {
		return "", err
	}
	content, err := c.Kubeconfig(name, cfg)
	if err != nil {
		return "", err
	}
	return c.layout.writeConf(name+".kubeconfig", content)
}

func (c *Cluster) defaultServiceAccount(ctx context.Context, namespace string) error {
	_, err := c.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// peopleReady succeeds when the API server has fetched the issuer's keys.
func (c *Cluster) peopleReady(ctx context.Context) error {
	cfg, err := c.Person("nobody@example.com")
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	_, err = client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return err
}
