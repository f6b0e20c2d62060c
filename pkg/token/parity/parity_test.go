// Package parity compares the offline reading of tokens with that of a real API server which reads the
// same AuthenticationConfiguration.
package parity

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/AlaudaDevops/countersign/pkg/token"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/issuer"
	"github.com/AlaudaDevops/countersign/test/env/pki"
)

const (
	audience = "countersign"
	client   = "cli"
	patience = time.Minute
	tick     = 50 * time.Millisecond
)

var (
	cluster *env.Cluster
	people  = map[string]*issuer.Issuer{}
)

// mappings are the parts of the configuration that follow an issuer, by the issuer's name.
var mappings = map[string]string{
	"claims": `
claimMappings:
  username: {claim: email, prefix: "sso:"}
  groups: {claim: groups, prefix: "sso/"}
  uid: {claim: sub}
claimValidationRules:
- {claim: tenant, requiredValue: alauda}`,
	"plain": `
claimMappings:
  username: {claim: sub, prefix: ""}
  groups: {claim: groups, prefix: ""}`,
	"expressions": `
claimMappings:
  username: {expression: "'x:' + claims.email + (claims.?email_verified.orValue(true) ? '' : '?')"}
  groups: {expression: "claims.realm__dot__access.roles"}
  uid: {expression: "claims.sub"}
  extra:
  - {key: example.com/team, valueExpression: "claims.?team.orValue('')"}
  - {key: example.com/deep, valueExpression: "claims.list[0].a__slash__b"}
claimValidationRules:
- {expression: "claims.exp - claims.iat <= 86400", message: too long}
userValidationRules:
- {expression: "user.username != 'x:root@example.com'", message: root has no business here}
- {expression: "user.groups.all(g, g != 'guest')", message: guests}
- {expression: "user.?extra['example.com/team'].orValue([]) != ['blue']", message: blue}`,
}

func TestMain(m *testing.M) {
	env.Main(m, &cluster, env.WithSetup(addIssuers))
}

// addIssuers writes our issuers into the running API server's configuration, which it reads again by
// itself, and waits until it accepts people of each.
func addIssuers(ctx context.Context, c *env.Cluster) error {
	content, err := os.ReadFile(c.AuthenticationConfig())
	if err != nil {
		return err
	}
	var whole apiserverv1.AuthenticationConfiguration
	if err := yaml.Unmarshal(content, &whole); err != nil {
		return err
	}
	for name, mapping := range mappings {
		var jwt apiserverv1.JWTAuthenticator
		if err := yaml.Unmarshal([]byte(mapping), &jwt); err != nil {
			return err
		}
		url, err := startIssuer(c.StateDir(), name, c.CA())
		if err != nil {
			return err
		}
		jwt.Issuer = apiserverv1.Issuer{URL: url, Audiences: []string{client}, CertificateAuthority: string(c.CA().CertPEM())}
		whole.JWT = append(whole.JWT, jwt)
	}
	if content, err = yaml.Marshal(whole); err != nil {
		return err
	}
	if err := os.WriteFile(c.AuthenticationConfig(), content, 0o600); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, tick, patience, true, func(ctx context.Context) (bool, error) { return accepts(ctx, c) })
}

func accepts(ctx context.Context, c *env.Cluster) (bool, error) {
	for name := range mappings {
		signed, err := mint(name, nil)
		if err != nil {
			return false, err
		}
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: signed}}
		answer, err := c.Client().AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil || !answer.Status.Authenticated {
			return false, err
		}
	}
	return true, nil
}

// mint signs a token that every mapping accepts, with some claims replaced or, if nil, left out.
func mint(name string, replaced map[string]any) (string, error) {
	claims := map[string]any{
		"tenant": "alauda", "team": "red", "list": []any{map[string]any{"a/b": "x"}},
		"realm.access": map[string]any{"roles": []string{"dev", ""}},
	}
	maps.Copy(claims, replaced)
	return people[name].Mint(issuer.Claims{
		Subject: "42", Email: "ada@example.com", Groups: []string{"owners", "dev"}, Audience: []string{client}, Override: claims,
	})
}

func startIssuer(dir, name string, ca *pki.CA) (string, error) {
	keys, err := issuer.OpenKeys(filepath.Join(dir, name+".pem"))
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	pair, err := ca.IssueServer("127.0.0.1")
	if err != nil {
		return "", err
	}
	certificate, err := pair.TLS()
	if err != nil {
		return "", err
	}
	people[name] = issuer.New("https://"+listener.Addr().String(), keys, clock.RealClock{})
	go func(i *issuer.Issuer, l net.Listener, c tls.Certificate) { _ = i.Serve(context.Background(), l, c) }(people[name], listener, certificate)
	return people[name].URL(), nil
}

// both returns the two readers of the running cluster.
func both(t *testing.T) (*token.Verifier, *token.Reviewer) {
	t.Helper()
	parsed, err := token.LoadConfig(cluster.AuthenticationConfig())
	require.NoError(t, err)
	own, err := token.ClusterFor(t.Context(), cluster.Admin(), nil, []string{audience})
	require.NoError(t, err)
	verifier, err := token.New(own, parsed, token.Options{})
	require.NoError(t, err)
	return verifier, token.NewReviewer(cluster.Client().AuthenticationV1().TokenReviews(), own.Issuers, own.Audiences, token.Options{})
}

func TestPeople(t *testing.T) {
	const alike, here, there, neither = "alike", "accepted here only", "accepted there only", "refused by both"
	roles := map[string]any{"roles": []string{"dev", ""}}
	cases := map[string]struct {
		issuer string
		claims map[string]any
		want   string
	}{
		"claims":                          {"claims", nil, alike},
		"claims, group a string":          {"claims", map[string]any{"groups": "one"}, alike},
		"claims, groups null":             {"claims", map[string]any{"groups": json.RawMessage("null")}, alike},
		"claims, no groups":               {"claims", map[string]any{"groups": nil}, alike},
		"claims, groups with an empty":    {"claims", map[string]any{"groups": []string{"", "a"}}, alike},
		"claims, escaped names":           {"claims", map[string]any{"email": "a\"\\\u00e9\u202e@x", "groups": []string{"a\"b", "c\\d", ",", "\u00e9"}}, alike},
		"claims, lone surrogate":          {"claims", map[string]any{"email": json.RawMessage(`"a\ud800b"`)}, alike},
		"claims, no jti":                  {"claims", map[string]any{"jti": nil}, alike},
		"claims, jti a number":            {"claims", map[string]any{"jti": 5}, alike},
		"claims, e-mail says nothing":     {"claims", map[string]any{"email_verified": nil}, alike},
		"claims, audience a string":       {"claims", map[string]any{"aud": client}, alike},
		"claims, e-mail unverified":       {"claims", map[string]any{"email_verified": false}, neither},
		"claims, e-mail verified as text": {"claims", map[string]any{"email_verified": "true"}, neither},
		"claims, no e-mail":               {"claims", map[string]any{"email": nil}, neither},
		"claims, e-mail a number":         {"claims", map[string]any{"email": 5}, neither},
		"claims, no subject":              {"claims", map[string]any{"sub": nil}, neither},
		"claims, groups an object":        {"claims", map[string]any{"groups": map[string]any{}}, neither},
		"claims, groups mixed":            {"claims", map[string]any{"groups": []any{"a", 1}}, neither},
		"claims, groups null inside":      {"claims", map[string]any{"groups": json.RawMessage(`["a",null]`)}, alike},
		"claims, another tenant":          {"claims", map[string]any{"tenant": "other"}, neither},
		"claims, no tenant":               {"claims", map[string]any{"tenant": nil}, neither},
		"claims, for another":             {"claims", map[string]any{"aud": "other"}, neither},
		"claims, for nobody":              {"claims", map[string]any{"aud": nil}, neither},
		"claims, expired":                 {"claims", map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}, neither},
		"claims, no expiry":               {"claims", map[string]any{"exp": nil}, neither},
		"claims, names unclear":           {"claims", map[string]any{"groups": nil, "_claim_names": 1}, neither},
		"claims, other claims elsewhere":  {"claims", map[string]any{"groups": nil, "_claim_names": map[string]any{"x": "y"}, "_claim_sources": map[string]any{"y": map[string]any{"JWT": "z"}}}, alike},
		"claims, claims on no server":     {"claims", map[string]any{"_claim_names": map[string]any{"x": "y"}, "_claim_sources": map[string]any{}}, neither},
		"claims, sources unclear":         {"claims", map[string]any{"_claim_sources": 5}, neither},

		"plain":                  {"plain", nil, alike},
		"plain, service account": {"plain", map[string]any{"sub": "system:serviceaccount:a:b"}, neither},
		"plain, masters":         {"plain", map[string]any{"groups": []string{"system:masters"}}, neither},

		"expressions":                     {"expressions", nil, alike},
		"expressions, no team":            {"expressions", map[string]any{"team": nil}, alike},
		"expressions, two teams":          {"expressions", map[string]any{"team": []string{"red", "", "green"}}, alike},
		"expressions, groups a string":    {"expressions", map[string]any{"realm.access": map[string]any{"roles": "one"}}, alike},
		"expressions, groups null":        {"expressions", map[string]any{"realm.access": json.RawMessage(`{"roles":null}`)}, alike},
		"expressions, groups missing":     {"expressions", map[string]any{"realm.access": map[string]any{}}, neither},
		"expressions, groups mixed":       {"expressions", map[string]any{"realm.access": map[string]any{"roles": []any{"a", 1}}}, neither},
		"expressions, guest":              {"expressions", map[string]any{"realm.access": map[string]any{"roles": []string{"guest"}}}, neither},
		"expressions, root":               {"expressions", map[string]any{"email": "root@example.com"}, neither},
		"expressions, team blue":          {"expressions", map[string]any{"team": "blue"}, neither},
		"expressions, team a number":      {"expressions", map[string]any{"team": 5}, neither},
		"expressions, too long":           {"expressions", map[string]any{"exp": time.Now().Add(48 * time.Hour).Unix()}, neither},
		"expressions, no deep value":      {"expressions", map[string]any{"list": []any{}}, neither},
		"expressions, literal underlines": {"expressions", map[string]any{"realm.access": nil, "realm__dot__access": roles}, neither},

		// Where the offline reading is narrower, on purpose.
		"groups on another server": {"claims", map[string]any{
			"groups": nil, "_claim_names": map[string]any{"groups": "s"}, "_claim_sources": map[string]any{"s": map[string]any{"JWT": "x"}},
		}, there},
		"empty name":           {"plain", map[string]any{"sub": ""}, there},
		"issued in the future": {"plain", map[string]any{"iat": time.Now().Add(time.Minute).Unix()}, neither},
		"valid in the future":  {"plain", map[string]any{"nbf": time.Now().Add(time.Minute).Unix()}, neither},
		"expiry as text":       {"plain", map[string]any{"exp": fmt.Sprint(time.Now().Add(time.Hour).Unix())}, neither},
		"issuer in capitals":   {"plain", map[string]any{"iss": nil, "ISS": people["plain"].URL()}, there},
	}
	verifier, reviewer := both(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			signed, err := mint(tc.issuer, tc.claims)
			require.NoError(t, err)
			differences, err := reviewer.CompareReading(t.Context(), verifier, signed)
			require.NoError(t, err)
			_, errHere := verifier.Authenticate(t.Context(), signed)
			_, errThere := reviewer.Authenticate(t.Context(), signed)
			got := map[[2]bool]string{{true, true}: alike, {true, false}: here, {false, true}: there, {false, false}: neither}[[2]bool{errHere == nil, errThere == nil}]
			assert.Equal(t, tc.want, got, "here: %v, there: %v", errHere, errThere)
			if tc.want == alike || tc.want == neither {
				assert.Empty(t, differences)
			}
		})
	}
}

func TestServiceAccounts(t *testing.T) {
	verifier, reviewer := both(t)
	namespace := cluster.Namespace(t)
	pods := cluster.Client().CoreV1().Pods(namespace)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "builder-1"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	t.Run("bound to a pod", func(t *testing.T) {
		signed, err := cluster.Token(t.Context(), namespace, "default", audience, pod)
		require.NoError(t, err)
		differences, err := reviewer.CompareReading(t.Context(), verifier, signed)
		require.NoError(t, err)
		assert.Empty(t, differences)
		id, err := verifier.Authenticate(t.Context(), signed)
		require.NoError(t, err)
		assert.Equal(t, &token.PodRef{Namespace: namespace, Name: pod.Name, UID: string(pod.UID)}, id.Pod)
		assert.Equal(t, []string{"JTI=" + id.JTI}, id.Extra["authentication.kubernetes.io/credential-id"])
	})
	t.Run("unbound", func(t *testing.T) {
		signed, err := cluster.Token(t.Context(), namespace, "default", audience, nil)
		require.NoError(t, err)
		differences, err := reviewer.CompareReading(t.Context(), verifier, signed)
		require.NoError(t, err)
		assert.Empty(t, differences)
		id, err := verifier.Authenticate(t.Context(), signed)
		require.NoError(t, err)
		assert.Nil(t, id.Pod)
	})
	t.Run("for the API server", func(t *testing.T) {
		signed, err := cluster.Token(t.Context(), namespace, "default", "", pod)
		require.NoError(t, err)
		for _, reader := range []token.Authenticator{verifier, reviewer} {
			_, err := reader.Authenticate(t.Context(), signed)
			assert.ErrorContains(t, err, `"countersign"`)
		}
	})
	t.Run("bound to a Secret", func(t *testing.T) {
		_, err := verifier.Authenticate(t.Context(), secretToken(t, namespace))
		assert.ErrorContains(t, err, "bound to a Secret")
	})
	t.Run("the pod is gone", func(t *testing.T) {
		signed, err := cluster.Token(t.Context(), namespace, "default", audience, pod)
		require.NoError(t, err)
		require.NoError(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			differences, err := reviewer.CompareReading(t.Context(), verifier, signed)
			assert.NoError(c, err)
			assert.Len(c, differences, 1, "only the API server sees it")
		}, patience, tick)
	})
}

func secretToken(t *testing.T, namespace string) string {
	t.Helper()
	secret, err := cluster.Client().CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	answer, err := cluster.Client().CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences:      []string{audience},
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return answer.Status.Token
}

func TestRotation(t *testing.T) {
	verifier, reviewer := both(t)
	signed, err := mint("plain", nil)
	require.NoError(t, err)
	_, err = verifier.Authenticate(t.Context(), signed)
	require.NoError(t, err)
	require.NoError(t, people["plain"].Rotate(1))
	signed, err = mint("plain", nil)
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		differences, err := reviewer.CompareReading(t.Context(), verifier, signed)
		assert.NoError(c, err)
		assert.Empty(c, differences)
		_, err = verifier.Authenticate(t.Context(), signed)
		assert.NoError(c, err)
	}, patience, tick)
}
