package open

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

const (
	people     = "people: [{username: alice, displayName: Alice}]\n"
	staticType = "type: static\nstatic: {path: PEOPLE}\n"
	ldapType   = "type: ldap\nldap: {url: 'ldaps://ldap.example.com', baseDN: 'dc=example,dc=com', userAttribute: uid}\n"
)

func config(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "directory.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func withPeople(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "people.yaml")
	require.NoError(t, os.WriteFile(path, []byte(people), 0o600))
	return config(t, "type: static\nstatic: {path: "+path+"}\n")
}

func openShift() Deps {
	alice := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "user.openshift.io/v1", "kind": "User", "metadata": map[string]any{"name": "alice"},
		"fullName": "Alice", "identities": []any{"ldap:alice"},
	}}
	return Deps{Dynamic: fake.NewSimpleDynamicClient(runtime.NewScheme(), alice)}
}

func TestEveryTypeOpens(t *testing.T) {
	secret := config(t, "secret")
	for name, content := range map[string]string{
		"static":                    staticType,
		"static without a type":     "static: {path: PEOPLE}\n",
		"static, type left empty":   "type:\nstatic: {path: PEOPLE}\n",
		"static with comments":      "# people\n---\n" + staticType,
		"json":                      `{"type": "static", "static": {"path": "PEOPLE"}}`,
		"ldap":                      ldapType,
		"keycloak":                  "type: keycloak\nkeycloak: {url: 'https://sso.example.com', realm: staff, clientID: countersign, clientSecretFile: " + secret + "}\n",
		"scim":                      "type: scim\nscim: {url: 'https://scim.example.com/v2', bearerTokenFile: " + secret + "}\n",
		"openshift":                 "type: openshift\n",
		"openshift with a section":  "type: openshift\nopenshift: {allowWithoutIdentities: true}\n",
		"openshift and empty words": "type: openshift\nopenshift:\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Open(config(t, content), openShift())
			require.NoError(t, err)
			assert.NotNil(t, got)
		})
	}
}

func TestPeopleAreFound(t *testing.T) {
	for name, open := range map[string]func(*testing.T) (*directory.Cached, error){
		"static": func(t *testing.T) (*directory.Cached, error) { return Open(withPeople(t), Deps{}) },
		"no type": func(t *testing.T) (*directory.Cached, error) {
			content, err := os.ReadFile(withPeople(t))
			require.NoError(t, err)
			return Open(config(t, strings.TrimPrefix(string(content), "type: static\n")), Deps{})
		},
		"openshift": func(t *testing.T) (*directory.Cached, error) {
			return Open(config(t, "type: openshift\n"), openShift())
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := open(t)
			require.NoError(t, err)
			answer, err := c.Lookup(t.Context(), "alice")
			require.NoError(t, err)
			assert.Equal(t, "Alice", answer.Person.DisplayName)
			_, err = c.Lookup(t.Context(), "bob")
			require.ErrorIs(t, err, directory.ErrUnknown)
		})
	}
}

func TestS16_WithoutConfigurationNobodyAnswers(t *testing.T) {
	c, err := Open("", Deps{})
	require.NoError(t, err)
	for range 10 {
		_, err = c.Lookup(t.Context(), "alice")
		var u *directory.UnavailableError
		require.ErrorAs(t, err, &u)
		assert.Equal(t, "no directory is configured: start the controller with --directory-config", u.Why)
		assert.Positive(t, u.RetryAfter)
	}
}

func TestConfigurationIsStrict(t *testing.T) {
	for name, test := range map[string]struct{ content, why string }{
		"empty":               {"", "it names no people: write static: {path: /etc/countersign/people}, or a type, which is one of static, ldap, keycloak, scim, openshift"},
		"comments only":       {"# soon\n", "it names no people: write static: {path: "},
		"null":                {"null\n", "it names no people: write static: {path: "},
		"only a cache":        {"cache: {positive: 1h}\n", "it names no people: write static: {path: "},
		"no type":             {"ldap: {url: 'ldaps://h', baseDN: 'dc=x', userAttribute: uid}\n", "there is a section ldap but no type, which means static: write type: ldap"},
		"no type, no path":    {"static: {}\n", "static: path is missing"},
		"no type, two":        {"static: {path: p}\nopenshift: {}\n", "there is a section openshift but no type"},
		"null section":        {"static:\n", "it names no people"},
		"unknown type":        {"type: nis\n", `type is "nis": write one of static`},
		"type in capitals":    {"type: Static\nstatic: {path: p}\n", `type is "Static"`},
		"no section":          {"type: static\n", "the section static is missing"},
		"another section":     {staticType + "openshift: {}\n", "there is a section openshift: remove the section or change the type"},
		"only another":        {"type: openshift\nstatic: {path: p}\n", "there is a section static"},
		"no path":             {"type: static\nstatic: {}\n", "static: path is missing"},
		"section is refused":  {"type: ldap\nldap: {url: 'ldap://h', baseDN: 'dc=x', userAttribute: uid}\n", "ldap: ldap:// sends the password"},
		"unknown field":       {staticType + "cash: {}\n", `unknown field "cash"`},
		"unknown deeper":      {"type: static\nstatic: {path: p, file: q}\n", `unknown field "static.file"`},
		"password inside":     {"type: ldap\nldap: {password: hunter2}\n", `unknown field "ldap.password"`},
		"other case":          {"type: static\nStatic: {path: p}\n", `unknown field "Static"`},
		"double key":          {"type: static\ntype: openshift\n", "already set in map"},
		"two documents":       {"type: openshift\n---\ntype: openshift\n", "more than one YAML document"},
		"garbage":             {"\x00\x01", "is not valid"},
		"a list":              {"- type: static\n", "is not valid"},
		"negative time":       {staticType + "cache: {positive: -1s}\n", "cache.positive is -1s, but must be at least 0s"},
		"no time-out":         {staticType + "cache: {timeout: 0s}\n", "cache.timeout is 0s, but must be at least 1ms"},
		"retry at once":       {staticType + "cache: {retryAfter: 0s}\n", "cache.retryAfter is 0s, but must be at least 1s"},
		"no duration":         {staticType + "cache: {positive: 5}\n", "is not valid"},
		"negative retries":    {staticType + "cache: {retries: -1}\n", "cache.retries is -1, but must be at least 0"},
		"no entries":          {staticType + "cache: {entries: 0}\n", "cache.entries is 0, but must be at least 1"},
		"no concurrency":      {staticType + "cache: {concurrency: 0}\n", "cache.concurrency is 0, but must be at least 1"},
		"breaker never shuts": {staticType + "cache: {breaker: {failures: 0}}\n", "cache.breaker.failures is 0, but must be at least 1"},
	} {
		t.Run(name, func(t *testing.T) {
			path := config(t, test.content)
			c, err := Open(path, openShift())
			require.ErrorContains(t, err, test.why)
			assert.ErrorContains(t, err, path)
			assert.NotContains(t, err.Error(), "hunter2")
			assert.Nil(t, c)
		})
	}
}

func TestMissingFileAndMissingClient(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "absent.yaml"), Deps{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Open(config(t, "type: openshift\n"), Deps{})
	require.ErrorContains(t, err, "openshift: there is no client")
}

func TestCacheSection(t *testing.T) {
	day := &metav1.Duration{Duration: 24 * time.Hour}
	none, zero, seven := &metav1.Duration{}, 0, 7
	for name, test := range map[string]struct {
		cache Cache
		want  directory.Options
	}{
		"left out": {Cache{}, directory.Options{}},
		"given": {
			Cache{Positive: day, Negative: day, MaxStale: day, Timeout: day, Backoff: day, RetryAfter: day, Retries: &seven, Entries: &seven, Concurrency: &seven, Breaker: Breaker{Failures: &seven, Open: day}},
			directory.Options{Positive: day.Duration, Negative: day.Duration, MaxStale: day.Duration, Timeout: day.Duration, Backoff: day.Duration, RetryAfter: day.Duration, Retries: 7, Entries: 7, Concurrency: 7, Breaker: directory.Breaker{Failures: 7, Open: day.Duration}},
		},
		"none": {
			Cache{Positive: none, Negative: none, MaxStale: none, Backoff: none, Retries: &zero, Breaker: Breaker{Open: none}},
			directory.Options{Positive: -1, Negative: -1, MaxStale: -1, Backoff: -1, Retries: -1, Breaker: directory.Breaker{Open: -1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.cache.options()
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestSettingsReachTheCache(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	file := withPeople(t)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	c, err := Open(config(t, string(content)+"cache: {positive: 1h}\n"), Deps{Clock: clock, Metrics: registry})
	require.NoError(t, err)
	for range 2 {
		answer, err := c.Lookup(t.Context(), "alice")
		require.NoError(t, err)
		assert.Equal(t, time.Unix(0, 0), answer.At)
		clock.Step(time.Hour - 1)
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	var labels []string
	for _, family := range families {
		labels = append(labels, family.GetName()+" "+family.GetMetric()[0].GetLabel()[0].GetValue())
	}
	assert.Equal(t, []string{
		"countersign_directory_breaker_open static", "countersign_directory_duration_seconds static", "countersign_directory_lookups_total static",
	}, labels)
}
