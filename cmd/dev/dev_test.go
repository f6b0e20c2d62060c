package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClaimRefusesWhatIsNotItsOwn(t *testing.T) {
	p := place{dir: t.TempDir()}
	kept := filepath.Join(p.dir, "kept")
	require.NoError(t, os.WriteFile(kept, nil, 0o600))
	_, err := p.claim()
	require.ErrorContains(t, err, "holds something else")
	require.ErrorContains(t, p.remove(), "nothing was removed")
	assert.FileExists(t, kept)
}

func TestClaimHoldsAndRemoveDeletes(t *testing.T) {
	p := place{dir: filepath.Join(t.TempDir(), "new")}
	require.NoError(t, p.remove(), "nothing to remove is no error")
	release, err := p.claim()
	require.NoError(t, err)
	_, err = p.claim()
	require.ErrorContains(t, err, "another command works on")
	require.ErrorContains(t, p.remove(), "another command works on")
	release()
	require.NoError(t, p.remove())
	assert.NoDirExists(t, p.dir)
}

func TestSettingsAreRemembered(t *testing.T) {
	p := place{dir: t.TempDir()}
	require.NoError(t, os.MkdirAll(p.conf(""), 0o700))
	up := func(args ...string) settings {
		cmd := newUpCommand()
		require.NoError(t, cmd.ParseFlags(args))
		all, err := p.rememberSettings(given(cmd.Flags()))
		require.NoError(t, err)
		return all
	}
	assert.Empty(t, up().args(nameController))
	first := up("--retention=1m", "--staleness=10s", "--upstream-timeout=5s")
	assert.Equal(t, []string{"--retention=1m0s"}, first.args(nameController))
	assert.Equal(t, []string{"--staleness=10s", "--upstream-timeout=5s"}, first.args(nameProxy))
	assert.Equal(t, first, up(), "what is not given again stays")
	assert.Equal(t, []string{"--retention=2m0s"}, up("--retention=2m").args(nameController))

	require.NoError(t, os.WriteFile(p.conf("settings.json"), []byte("{"), 0o600))
	_, err := p.rememberSettings(nil)
	assert.ErrorContains(t, err, "are damaged")
}

func TestQuoteMakesOneShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"https://127.0.0.1:80/x": "https://127.0.0.1:80/x",
		"/a b/c":                 "'/a b/c'",
		"it's":                   `'it'\''s'`,
		"$(reboot)":              "'$(reboot)'",
		"":                       "''",
	} {
		assert.Equal(t, want, quote(text))
	}
}

func signed(t *testing.T, expires time.Time) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(expires)}).SignedString([]byte("key"))
	require.NoError(t, err)
	return token
}

func TestTokensAreKeptWhileTheyLive(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "token")
	calls := 0
	get := func(beyond time.Time) string {
		token, err := keptToken(path, beyond, func() (string, error) {
			calls++
			return signed(t, now.Add(time.Duration(calls)*time.Hour)), nil
		})
		require.NoError(t, err)
		return token
	}
	first := get(now)
	assert.Equal(t, first, get(now.Add(30*time.Minute)))
	assert.NotEqual(t, first, get(now.Add(time.Hour)), "what ends by then is replaced")
	require.NoError(t, os.WriteFile(path, []byte("no token"), 0o600))
	get(now)
	assert.Equal(t, 3, calls)
}

func TestReadyConditionSaysWhatIsMissing(t *testing.T) {
	condition := func(status metav1.ConditionStatus, generation int64) []metav1.Condition {
		var all []metav1.Condition
		apimeta.SetStatusCondition(&all, metav1.Condition{
			Type: conditionReady, Status: status, Reason: "InvalidTemplate", Message: "no such kind", ObservedGeneration: generation,
		})
		return all
	}
	assert.NoError(t, readyCondition("rule a", 2, condition(metav1.ConditionTrue, 2)))
	assert.ErrorContains(t, readyCondition("rule a", 2, nil), "no controller has looked at rule a yet")
	assert.ErrorContains(t, readyCondition("rule a", 2, condition(metav1.ConditionTrue, 1)), "no controller has looked at rule a yet")
	assert.ErrorContains(t, readyCondition("rule a", 2, condition(metav1.ConditionFalse, 2)), "rule a is not ready (InvalidTemplate): no such kind")
}

func TestManifestsRenderWithoutWhatRunsInPods(t *testing.T) {
	p, err := newPlace("")
	require.NoError(t, err)
	rendered, err := render(p.manifest("default"), "Deployment")
	require.NoError(t, err)
	assert.Contains(t, rendered, "kind: ValidatingAdmissionPolicy")
	assert.NotContains(t, rendered, "kind: Deployment")
}

func TestTokenNeedsAnEnvironment(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{args: []string{"token", "developer"}, want: "there is no cluster"},
		{args: []string{"token", "developer", "--ttl=0s"}, want: "--ttl"},
		{args: []string{"token"}, want: "accepts 1 arg"},
	} {
		cmd := newCommand()
		cmd.SetArgs(append(tc.args, "--dir", t.TempDir()))
		cmd.SetOut(&bytes.Buffer{})
		assert.ErrorContains(t, cmd.ExecuteContext(t.Context()), tc.want)
	}
}

func TestPeople(t *testing.T) {
	assert.Equal(t, "developer@example.com", email("developer"))
	assert.Equal(t, "a@b.c", email("a@b.c"))
	assert.Equal(t, []string{"prod-owners"}, groupsOf("owner2"))
	assert.Empty(t, groupsOf("stranger"))
}
