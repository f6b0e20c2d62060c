package token

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestServiceAccountIdentity(t *testing.T) {
	b := newBench(t)
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:prod", "system:authenticated"}
	account := &ServiceAccount{Namespace: "prod", Name: "builder", UID: "sa-uid"}
	cases := map[string]struct {
		token *mint
		want  Identity
	}{
		"bound to a pod": {
			token: makeServiceAccountToken(),
			want: Identity{
				JTI: "jti-1", Pod: &PodRef{Namespace: "prod", Name: "builder-1", UID: "pod-uid"},
				Extra: map[string][]string{
					"authentication.kubernetes.io/credential-id": {"JTI=jti-1"},
					"authentication.kubernetes.io/pod-name":      {"builder-1"},
					"authentication.kubernetes.io/pod-uid":       {"pod-uid"},
					"authentication.kubernetes.io/node-name":     {"node-1"},
					"authentication.kubernetes.io/node-uid":      {"node-uid"},
				},
			},
		},
		"unbound": {
			token: makeServiceAccountToken().bound("", "", ""),
			want:  Identity{JTI: "jti-1", Extra: map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=jti-1"}}},
		},
		"without jti": {
			token: makeServiceAccountToken().bound("", "", "").without("jti"),
		},
		"ES256": {
			token: makeServiceAccountToken().bound("", "", "").without("jti").signedWith(jwt.SigningMethodES256, ecOne()).head("kid", "ec"),
		},
		"without key id": {
			token: makeServiceAccountToken().bound("", "", "").without("jti").head("kid", ""),
		},
		"audience as a string": {
			token: makeServiceAccountToken().bound("", "", "").without("jti").claim("aud", ourAudience),
		},
		"several audiences": {
			token: makeServiceAccountToken().bound("", "", "").without("jti").claim("aud", []string{"other", ourAudience}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.want.Username, tc.want.UID, tc.want.Groups = "system:serviceaccount:prod:builder", "sa-uid", groups
			tc.want.Issuer, tc.want.ServiceAccount, tc.want.Expiry = clusterIssuer, account, epoch.Add(time.Hour)
			token := tc.token.sign()
			first := accepted(t, b, token)
			if diff := cmp.Diff(tc.want, *first, cmp.Comparer(time.Time.Equal)); diff != "" {
				t.Errorf("identity (-want +got):\n%s", diff)
			}
			assert.Same(t, first, accepted(t, b, token), "a known token yields the shared identity")
		})
	}
}

// TestAttacks sends every token that must not be accepted, and reads the sentence that says why.
func TestAttacks(t *testing.T) {
	b := newBench(t)
	publicPEM, err := x509.MarshalPKIXPublicKey(rsaOne().Public())
	require.NoError(t, err)
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicPEM})
	good := makeServiceAccountToken().sign()
	parts := strings.Split(good, ".")
	segment := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

	cases := map[string]struct{ token, want string }{
		// Form.
		"empty":              {"", "has no payload"},
		"opaque":             {"a1b2c3", "has no payload"},
		"two parts":          {parts[0] + "." + parts[1], "not three parts"},
		"four parts":         {good + ".", "not three parts"},
		"five parts of JWE":  {good + ".a.b", "not three parts"},
		"header no base64":   {"?." + parts[1] + "." + parts[2], "unreadable header"},
		"header a list":      {segment(`["RS256"]`) + "." + parts[1] + "." + parts[2], "unreadable header"},
		"header null":        {segment(`null`) + "." + parts[1] + "." + parts[2], "unreadable header"},
		"payload no JSON":    {parts[0] + "." + segment("{") + "." + parts[2], "unreadable payload"},
		"payload not UTF-8":  {parts[0] + "." + segment("{\"iss\":\"\xff\"}") + "." + parts[2], "unreadable payload"},
		"payload null":       {parts[0] + "." + segment("null") + "." + parts[2], "unreadable payload"},
		"signature padded":   {good + "==", "unreadable signature"},
		"critical header":    {makeServiceAccountToken().head("crit", []string{"b64"}).sign(), "unreadable header"},
		"too long":           {makeServiceAccountToken().claim("pad", strings.Repeat("x", maxTokenBytes)).sign(), "longer than 65536 bytes"},
		"trailing bits":      {good[:len(good)-1] + nextBase64(good[len(good)-1]), "unreadable signature"},
		"date as text":       {makeServiceAccountToken().claim("exp", "9999999999").sign(), "unreadable payload"},
		"date overflows":     {makeServiceAccountToken().claim("exp", 1e300).sign(), "unreadable payload"},
		"date before 1970":   {makeServiceAccountToken().claim("exp", -1).sign(), "unreadable payload"},
		"issuer in capitals": {makeServiceAccountToken().without("iss").claim("ISS", clusterIssuer).sign(), `issuer "", which is not configured`},

		// Algorithm and key.
		"alg none":                     {makeServiceAccountToken().signedWith(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType).sign(), `algorithm "none", which is not accepted`},
		"alg none, signature kept":     {segment(`{"alg":"none","kid":"one"}`) + "." + parts[1] + "." + parts[2], `algorithm "none"`},
		"alg missing":                  {segment(`{"kid":"one"}`) + "." + parts[1] + "." + parts[2], `algorithm ""`},
		"HMAC with the public key":     {makeServiceAccountToken().signedWith(jwt.SigningMethodHS256, secret).sign(), `algorithm "HS256", which is not accepted`},
		"HMAC for a person":            {makePersonToken(b.people.URL).signedWith(jwt.SigningMethodHS512, secret).sign(), `algorithm "HS512", which is not accepted`},
		"RS512 from the cluster":       {makeServiceAccountToken().signedWith(jwt.SigningMethodRS512, rsaOne()).sign(), `algorithm "RS512", which is not accepted from its issuer; sign it with RS256, ES256`},
		"EC algorithm with an RSA key": {makeServiceAccountToken().signedWith(jwt.SigningMethodES256, ecOne()).sign(), `algorithm "ES256"`},
		"RSA algorithm with an EC key": {makeServiceAccountToken().head("kid", "ec").sign(), `algorithm "RS256"`},
		"unknown key id":               {makeServiceAccountToken().head("kid", "evil").sign(), `signed with key "evil", which issuer "https://kubernetes.default.svc.cluster.local" does not publish`},
		"own key under a known id":     {makeServiceAccountToken().signedWith(jwt.SigningMethodRS256, rsaTwo()).sign(), "signature does not match"},
		"own key without id":           {makeServiceAccountToken().signedWith(jwt.SigningMethodRS256, rsaTwo()).head("kid", "").sign(), "signature does not match"},
		"key in the header":            {makeServiceAccountToken().signedWith(jwt.SigningMethodRS256, rsaTwo()).head("jwk", publish("one", rsaTwo())).sign(), "signature does not match"},
		"claims changed":               {parts[0] + "." + segment(strings.ReplaceAll(payloadOf(t, good), "builder", "boss")) + "." + parts[2], "signature does not match"},
		"no signature":                 {parts[0] + "." + parts[1] + ".", "signature does not match"},
		"signature of another token":   {parts[0] + "." + parts[1] + "." + strings.Split(makeServiceAccountToken().claim("jti", "x").sign(), ".")[2], "signature does not match"},
		"person's key for the cluster": {makeServiceAccountToken().head("kid", "ec").signedWith(jwt.SigningMethodES256, mustEC(ecOne().Curve)).sign(), "signature does not match"},

		// Time.
		"no expiry":            {makeServiceAccountToken().without("exp").sign(), "has no expiry"},
		"expiry null":          {makeServiceAccountToken().claim("exp", nil).sign(), "has no expiry"},
		"expired":              {makeServiceAccountToken().claim("exp", epoch.Add(-time.Hour).Unix()).sign(), "expired at 2026-03-01T11:00:00Z; get a new one"},
		"expired just now":     {makeServiceAccountToken().claim("exp", epoch.Unix()).sign(), "expired at 2026-03-01T12:00:00Z"},
		"expired at zero":      {makeServiceAccountToken().claim("exp", 0).sign(), "expired at 1970-01-01T00:00:00Z"},
		"not yet valid":        {makeServiceAccountToken().claim("nbf", epoch.Add(11*time.Second).Unix()).sign(), "not valid before 2026-03-01T12:00:11Z"},
		"issued in the future": {makeServiceAccountToken().claim("iat", epoch.Add(11*time.Second).Unix()).sign(), "not valid before 2026-03-01T12:00:11Z"},

		// Audience and issuer.
		"for another": {makeServiceAccountToken().claim("aud", []string{"vault"}).sign(),
			`the token is for "vault", but this proxy wants one for "countersign"; mint one with kubectl create token builder --namespace prod --audience=countersign, or mount`},
		"for the API server":  {makeServiceAccountToken().claim("aud", []string{clusterIssuer}).sign(), "but this proxy wants one for"},
		"for nobody":          {makeServiceAccountToken().without("aud").sign(), "for nobody in particular"},
		"person for another":  {makePersonToken(b.people.URL).claim("aud", "other-client").sign(), `wants one for "cli"; sign in again for client "cli"`},
		"person for us":       {makePersonToken(b.people.URL).claim("aud", ourAudience).sign(), `wants one for "cli"`},
		"account for people":  {makeServiceAccountToken().claim("aud", []string{peopleAudience}).sign(), "wants one for"},
		"unknown issuer":      {makeServiceAccountToken().claim("iss", "https://evil.example.com").sign(), `issuer "https://evil.example.com", which is not configured`},
		"issuer with a slash": {makeServiceAccountToken().claim("iss", clusterIssuer+"/").sign(), "not configured"},
		"issuer that draws":   {makeServiceAccountToken().claim("iss", "\u202e\x1b[31m"+strings.Repeat("y", 500)).sign(), `"\u202e\x1b[31m` + strings.Repeat("y", 122) + `"...`},

		// Who.
		"person as service account": {makePersonToken(b.people.URL).claim("email", "system:serviceaccount:prod:builder").sign(),
			`claims the name "system:serviceaccount:prod:builder", but names that begin with "system:" are accepted from the cluster's own issuer only`},
		"person as administrator":       {makePersonToken(b.people.URL).claim("email", "system:admin").sign(), `claims the name "system:admin"`},
		"person in masters":             {makePersonToken(b.people.URL).claim("groups", []string{"dev", "system:masters"}).sign(), `claims the name "system:masters"`},
		"person in masters as text":     {makePersonToken(b.people.URL).claim("groups", "system:masters").sign(), `claims the name "system:masters"`},
		"person authenticated":          {makePersonToken(b.people.URL).claim("groups", []string{"system:authenticated"}).sign(), `claims the name "system:authenticated"`},
		"person named as the group":     {makePersonToken(b.people.URL).claim("email", "system:authenticated").sign(), `claims the name "system:authenticated"`},
		"person without a name":         {makePersonToken(b.people.URL).claim("email", "").sign(), "empty user name"},
		"account without namespace":     {makeServiceAccountToken().claim("kubernetes.io", map[string]any{"serviceaccount": map[string]any{"name": "builder", "uid": "u"}}).sign(), "names no service account"},
		"account without UID":           {makeServiceAccountToken().claim("kubernetes.io", map[string]any{"namespace": "prod", "serviceaccount": map[string]any{"name": "builder"}}).sign(), "names no service account"},
		"account that is none":          {makeServiceAccountToken().without("kubernetes.io").sign(), "names no service account"},
		"account of two namespaces":     {makeServiceAccountToken().claim("sub", "system:serviceaccount:a:b:c").claim("kubernetes.io", map[string]any{"namespace": "a:b", "serviceaccount": map[string]any{"name": "c", "uid": "u"}}).sign(), "names no service account"},
		"subject of another":            {makeServiceAccountToken().claim("sub", "system:serviceaccount:prod:boss").sign(), "subject and its service account differ"},
		"pod without UID":               {makeServiceAccountToken().bound("pod", "builder-1", "").sign(), "bound to a pod without a name or UID"},
		"bound to a Secret":             {makeServiceAccountToken().bound("secret", "s", "u").sign(), "bound to a Secret, whose end this proxy does not see"},
		"bound to a node":               {makeServiceAccountToken().bound("node", "n", "u").sign(), "bound to a Node"},
		"bound to a validating webhook": {makeServiceAccountToken().bound("validatingwebhookconfiguration", "w", "u").sign(), "bound to a ValidatingWebhookConfiguration"},
		"bound to a mutating webhook":   {makeServiceAccountToken().bound("mutatingwebhookconfiguration", "w", "u").sign(), "bound to a MutatingWebhookConfiguration"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for range 2 { // a refusal must not be forgotten by the second try
				e := refused(t, b, tc.token)
				assert.Equal(t, ReasonUnauthenticated, e.Reason)
				assert.Contains(t, e.Detail, tc.want)
				assert.NotContains(t, e.Detail, "\n")
			}
		})
	}
}

// nextBase64 keeps the six bits' upper part and sets an unused lower bit.
func nextBase64(c byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, c)|1])
}

func payloadOf(t *testing.T, token string) string {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	require.NoError(t, err)
	return string(payload)
}

func TestTimes(t *testing.T) {
	at := func(d time.Duration) int64 { return epoch.Add(d).Unix() }
	cases := map[string]struct {
		token *mint
		after time.Duration // how far the clock goes before the second look
		want  string        // at the second look; the first is always accepted
	}{
		"nbf inside the leeway":  {token: makeServiceAccountToken().claim("nbf", at(10*time.Second))},
		"iat inside the leeway":  {token: makeServiceAccountToken().claim("iat", at(10*time.Second))},
		"a moment before expiry": {token: makeServiceAccountToken(), after: time.Hour - time.Millisecond},
		"at expiry":              {token: makeServiceAccountToken(), after: time.Hour, want: "expired at"},
		"fraction of a second":   {token: makeServiceAccountToken().claim("exp", float64(at(0))+0.5), after: 400 * time.Millisecond},
		"the clock goes back":    {token: makeServiceAccountToken(), after: -time.Minute, want: "not valid before"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			token := tc.token.sign()
			accepted(t, b, token)
			b.clock.SetTime(epoch.Add(tc.after))
			if tc.want == "" {
				accepted(t, b, token)
				return
			}
			assert.Contains(t, refused(t, b, token).Detail, tc.want)
		})
	}
}

func TestNewRefusesWrongSettings(t *testing.T) {
	f := newFakeIssuer(t)
	config, err := ParseConfig(configFor(f, peopleMapping))
	require.NoError(t, err)
	cases := map[string]struct {
		change func(*Cluster)
		want   string
	}{
		"no issuer":           {func(c *Cluster) { c.Issuers = nil }, "--service-account-issuer"},
		"empty issuer":        {func(c *Cluster) { c.Issuers = []string{""} }, "--service-account-issuer"},
		"no audience":         {func(c *Cluster) { c.Audiences = nil }, "own audience is empty"},
		"empty audience":      {func(c *Cluster) { c.Audiences = []string{"a", ""} }, "own audience is empty"},
		"no client":           {func(c *Cluster) { c.Client = nil }, "a client for it"},
		"algorithm none":      {func(c *Cluster) { c.Algorithms = []string{"none"} }, `algorithm "none"`},
		"algorithm HMAC":      {func(c *Cluster) { c.Algorithms = []string{"HS256"} }, `algorithm "HS256"`},
		"issuer twice":        {func(c *Cluster) { c.Issuers = []string{clusterIssuer, clusterIssuer} }, "configured twice"},
		"issuer among people": {func(c *Cluster) { c.Issuers = append(c.Issuers, f.URL) }, "must not stand among those of people"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := f.cluster()
			tc.change(&c)
			_, err := New(c, config, Options{})
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestClusterWithSeveralIssuersAndAlgorithms(t *testing.T) {
	f := newFakeIssuer(t, publish("one", rsaOne()), publish("ec", ec384()))
	c := f.cluster()
	c.Issuers = append(c.Issuers, "https://former.example.com")
	c.Algorithms = []string{"RS256", "ES384"}
	v, err := New(c, nil, Options{Clock: newBench(t).clock})
	require.NoError(t, err)
	accepted(t, v, makeServiceAccountToken().sign())
	accepted(t, v, makeServiceAccountToken().claim("iss", "https://former.example.com").sign())
	accepted(t, v, makeServiceAccountToken().signedWith(jwt.SigningMethodES384, ec384()).head("kid", "ec").sign())
	assert.Len(t, v.Health(), 1, "all issuers of the cluster share its keys")
}

func TestCancelledCallerIsToldToTryAgain(t *testing.T) {
	b := newBench(t)
	b.cluster.held = make(chan struct{})
	defer close(b.cluster.held)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := b.Authenticate(ctx, makeServiceAccountToken().sign())
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, ReasonNotReady, e.Reason)
	assert.ErrorIs(t, err, context.Canceled)
}
