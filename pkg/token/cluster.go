package token

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	authenticationtokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/client-go/rest"
)

// Cluster is the issuer of service-account tokens: the API server.
type Cluster struct {
	// Issuers are the values of --service-account-issuer, at least one.
	Issuers []string
	// Audiences are those of the proxy itself, at least one; a token must be for one of them.
	Audiences []string
	// Address is the API server's base URL; its keys are read below it, at /openid/v1/jwks.
	Address string
	// Client reads the keys; it authenticates to the API server and verifies its certificate.
	Client *http.Client
	// Algorithms are those that the API server signs with; RS256 and ES256 by default.
	Algorithms []string
}

// ClusterFor returns the Cluster behind a client configuration. Without issuers it asks the API server
// for its own: the first --service-account-issuer, the one that signs new tokens.
func ClusterFor(ctx context.Context, config *rest.Config, issuers, audiences []string) (Cluster, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return Cluster{}, fmt.Errorf("making a client for the cluster's signing keys: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return Cluster{}, fmt.Errorf("reading the API server's address: %w", err)
	}
	// The client's credentials go to the API server and nowhere else.
	direct := *client
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := Cluster{Issuers: issuers, Audiences: audiences, Address: base.String(), Client: &direct}
	if len(issuers) > 0 {
		return c, nil
	}
	found, err := discover(ctx, c.Client, c.address(discoveryPath))
	if err != nil {
		return Cluster{}, fmt.Errorf("asking the API server for its issuer of service-account tokens: %w", err)
	}
	c.Issuers = []string{found.Issuer}
	return c, nil
}

func (c *Cluster) address(path string) string { return strings.TrimSuffix(c.Address, "/") + path }

func (c *Cluster) validate() error {
	if len(c.Algorithms) == 0 {
		c.Algorithms = []string{"RS256", "ES256"}
	}
	switch {
	case len(c.Issuers) == 0 || slices.Contains(c.Issuers, ""):
		return errors.New("the cluster's issuer of service-account tokens is empty; give the API server's --service-account-issuer")
	case len(c.Audiences) == 0 || slices.Contains(c.Audiences, ""):
		return errors.New("the proxy's own audience is empty; give at least one, so that tokens for others are refused")
	case c.Client == nil || c.Address == "":
		return errors.New("the API server's address and a client for it are needed to read its signing keys")
	}
	for _, a := range c.Algorithms {
		if _, ok := methods[a]; !ok {
			return fmt.Errorf("algorithm %s is not accepted from any issuer; use one of %s", quoted(a), strings.Join(allAlgorithms, ", "))
		}
	}
	return nil
}

// boundClaims is the "kubernetes.io" claim of a service-account token (KEP-1205).
type boundClaims struct {
	Namespace      string    `json:"namespace"`
	ServiceAccount objectRef `json:"serviceaccount"`

	Pod               *objectRef `json:"pod"`
	Node              *objectRef `json:"node"`
	Secret            *objectRef `json:"secret"`
	ValidatingWebhook *objectRef `json:"validatingwebhookconfiguration"`
	MutatingWebhook   *objectRef `json:"mutatingwebhookconfiguration"`
}

type objectRef struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

func (r *objectRef) complete() bool { return r.Name != "" && r.UID != "" }

// serviceAccounts reads the tokens of the cluster's issuer.
type serviceAccounts struct{}

func (serviceAccounts) identity(_ context.Context, t *compact) (*Identity, *Error) {
	if err := t.checkBound(); err != nil {
		return nil, err
	}
	c := t.claims.Kubernetes
	info := serviceaccount.ServiceAccountInfo{
		Namespace:    c.Namespace,
		Name:         c.ServiceAccount.Name,
		UID:          c.ServiceAccount.UID,
		CredentialID: authenticationtokenjwt.CredentialIDForJTI(string(t.claims.ID)),
	}
	id := &Identity{
		Issuer:         t.claims.Issuer,
		JTI:            string(t.claims.ID),
		ServiceAccount: &ServiceAccount{Namespace: info.Namespace, Name: info.Name, UID: info.UID},
		Expiry:         t.claims.Expiry.Time,
	}
	if c.Pod != nil {
		info.PodName, info.PodUID = c.Pod.Name, c.Pod.UID
		id.Pod = &PodRef{Namespace: c.Namespace, Name: c.Pod.Name, UID: c.Pod.UID}
	}
	if c.Node != nil {
		info.NodeName, info.NodeUID = c.Node.Name, c.Node.UID
	}
	id.take(info.UserInfo())
	return id, nil
}

// checkBound refuses what the API server never signs, and what it signs but the proxy cannot follow:
// it watches pods and service accounts, so it sees those end, and nothing else.
func (t *compact) checkBound() *Error {
	c := t.claims.Kubernetes
	if c == nil || c.Namespace == "" || !c.ServiceAccount.complete() || strings.Contains(c.Namespace+c.ServiceAccount.Name, ":") {
		return errGarbled("it names no service account", nil)
	}
	if !serviceaccount.MatchesUsername(c.Namespace, c.ServiceAccount.Name, string(t.claims.Subject)) {
		return errGarbled("its subject and its service account differ", nil)
	}
	if c.Pod != nil && !c.Pod.complete() {
		return errGarbled("it is bound to a pod without a name or UID", nil)
	}
	if kind := c.unfollowed(); kind != "" {
		return refuse("the token is bound to a %s, whose end this proxy does not see; use a token bound to a pod, or to nothing", kind)
	}
	return nil
}

func (c *boundClaims) unfollowed() string {
	switch {
	case c.Secret != nil:
		return "Secret"
	case c.ValidatingWebhook != nil:
		return "ValidatingWebhookConfiguration"
	case c.MutatingWebhook != nil:
		return "MutatingWebhookConfiguration"
	case c.Node != nil && c.Pod == nil:
		return "Node"
	}
	return ""
}

func (serviceAccounts) audienceHint(t *compact, audience string) string {
	const volume = "or mount a projected token volume with that audience"
	c := t.claims.Kubernetes
	if c == nil {
		return "mint one with kubectl create token SERVICEACCOUNT --audience=" + audience + ", " + volume
	}
	return fmt.Sprintf("mint one with kubectl create token %s --namespace %s --audience=%s, %s",
		c.ServiceAccount.Name, c.Namespace, audience, volume)
}
