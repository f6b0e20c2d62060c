package token

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const wholeConfig = `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous: {enabled: false}
jwt:
- issuer: {url: https://one.example.com, audiences: [a, b], audienceMatchPolicy: MatchAny}
  claimMappings:
    username: {claim: email, prefix: ""}
    groups: {claim: groups, prefix: "one:"}
- issuer: {url: https://two.example.com, audiences: [c], discoveryURL: https://two.internal/.well-known/openid-configuration}
  claimMappings:
    username: {expression: claims.sub}
`

func TestLoadConfig(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "authentication.yaml")
			require.NoError(t, os.WriteFile(path, []byte(strings.Replace(wholeConfig, "k8s.io/v1", "k8s.io/"+version, 1)), 0o600))
			config, err := LoadConfig(path)
			require.NoError(t, err)
			assert.Equal(t, []string{"https://one.example.com", "https://two.example.com"}, config.Issuers())
		})
	}
}

func TestLoadConfigNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "authentication.yaml")
	_, err := LoadConfig(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	_, err = LoadConfig(path)
	assert.ErrorContains(t, err, path)
}

func TestConfigRefused(t *testing.T) {
	cases := map[string]struct{ old, new, want string }{
		"unknown field":           {"audiences: [c]", "audiences: [c], audience: c", `unknown field "jwt[1].issuer.audience"`},
		"repeated field":          {"kind: Auth", "kind: X\nkind: Auth", `"kind" already set`},
		"unknown kind":            {"kind: AuthenticationConfiguration", "kind: Authentication", "no kind"},
		"another kind":            {wholeConfig, "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n", "holds no AuthenticationConfiguration"},
		"alpha version":           {"k8s.io/v1", "k8s.io/v1alpha1", "v1alpha1"},
		"anonymous callers":       {"anonymous: {enabled: false}", "anonymous: {enabled: true}", "anonymous.enabled is true"},
		"anonymous on some paths": {"anonymous: {enabled: false}", "anonymous: {enabled: true, conditions: [{path: /livez}]}", "anonymous.enabled is true"},
		"egress selector":         {"audiences: [c]", "audiences: [c], egressSelectorType: cluster", "jwt[1].issuer.egressSelectorType is set"},
		"reserved user prefix":    {`username: {claim: email, prefix: ""}`, `username: {claim: email, prefix: "system:"}`, "jwt[0].claimMappings.username.prefix begins with"},
		"reserved group prefix":   {`prefix: "one:"`, `prefix: "system:one:"`, "jwt[0].claimMappings.groups.prefix begins with"},
		"issuer without TLS":      {"https://one.example.com", "http://one.example.com", "scheme must be https"},
		"issuer twice":            {"https://two.example.com", "https://one.example.com", "Duplicate value"},
		"no audience":             {"audiences: [c]", "audiences: []", "audiences"},
		"no match policy":         {", audienceMatchPolicy: MatchAny", "", "must be MatchAny"},
		"no prefix":               {`{claim: email, prefix: ""}`, "{claim: email}", "prefix is required"},
		"expression with a typo":  {"claims.sub", "claim.sub", "undeclared reference"},
		"e-mail unverified":       {"claims.sub", "claims.email", "claims.email_verified must be used"},
		"authority no PEM":        {"audiences: [c]", "audiences: [c], certificateAuthority: x", "certificateAuthority"},
	}
	_, err := ParseConfig([]byte(wholeConfig))
	require.NoError(t, err)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, wholeConfig, tc.old)
			_, err := ParseConfig([]byte(strings.Replace(wholeConfig, tc.old, tc.new, 1)))
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestConfigWithoutPeople(t *testing.T) {
	config, err := ParseConfig([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"))
	require.NoError(t, err)
	assert.Empty(t, config.Issuers())
}
