package source

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/test/env/pki"
)

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestReadSecret(t *testing.T) {
	for _, test := range []struct{ content, want string }{
		{"abc", "abc"}, {"abc\n", "abc"}, {"abc\r\n", "abc"}, {" a b \n", " a b "}, {"a\n\n", "a\n"},
	} {
		got, err := ReadSecret(file(t, test.content))
		require.NoError(t, err)
		assert.Equal(t, Secret(test.want), got)
	}
	for _, empty := range []string{"", "\n", "\r\n"} {
		_, err := ReadSecret(file(t, empty))
		require.ErrorContains(t, err, "holds no secret")
	}
	_, err := ReadSecret(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSecretsDoNotPrint(t *testing.T) {
	secret := Secret("abc")
	encoded, err := json.Marshal(map[string]any{"secret": secret})
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s %q", secret, secret, secret, secret, secret)+string(encoded), "abc")
}

func TestTLS(t *testing.T) {
	ca, err := pki.NewCA("ours")
	require.NoError(t, err)
	config, err := TLS(file(t, string(ca.CertPEM())), "name")
	require.NoError(t, err)
	assert.Equal(t, "name", config.ServerName)
	assert.True(t, config.RootCAs.Equal(ca.Pool()))

	config, err = TLS("", "")
	require.NoError(t, err)
	assert.Nil(t, config.RootCAs, "those of the host")
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"jane", "王", "\x00", strings.Repeat("x", 4096)} {
		require.NoError(t, CheckName(name))
	}
	for _, name := range []string{"", "\xc3\x28", strings.Repeat("x", 4097)} {
		require.ErrorIs(t, CheckName(name), directory.ErrUnknown)
	}
}

func TestChoice(t *testing.T) {
	for name, test := range map[string]struct {
		accepted []string
		refused  error
		seen     int
		want     error
	}{
		"nothing":                 {nil, nil, 0, ErrAbsent},
		"similar ones":            {nil, nil, 3, ErrSpelling},
		"one":                     {[]string{"a"}, nil, 3, nil},
		"two":                     {[]string{"a", "b"}, nil, 3, ErrDuplicate},
		"a refused one":           {nil, ErrDisabled, 3, ErrDisabled},
		"one beside a refused":    {[]string{"a"}, ErrDisabled, 3, nil},
		"two beside a refused":    {[]string{"a", "b"}, ErrDisabled, 3, ErrDuplicate},
		"as many as are believed": {nil, nil, MaxCandidates, ErrSpelling},
	} {
		t.Run(name, func(t *testing.T) {
			var choice Choice[string]
			for i := range test.seen {
				require.NoError(t, choice.See(fmt.Sprint(i)))
			}
			for _, one := range test.accepted {
				choice.Accept(one)
			}
			if test.refused != nil {
				choice.Refuse(test.refused)
			}
			_, err := choice.One()
			assert.Equal(t, test.want, err)
			assert.Equal(t, test.seen >= MaxCandidates, choice.Full())
			assert.Equal(t, len(test.accepted) > 1, choice.Twice())
		})
	}
}

func TestRepeatedEntriesAreNoAnswer(t *testing.T) {
	var choice Choice[string]
	require.NoError(t, choice.See("1"))
	err := choice.See("1")
	require.ErrorContains(t, err, "the same entry twice")
	assert.False(t, Answered(err))
}

func TestErrors(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, Unanswered(ctx), context.DeadlineExceeded)
	cancel()
	require.ErrorIs(t, Unanswered(ctx), context.Canceled)
	assert.Less(t, len(Unreachable("%s", strings.Repeat("x", 5000)).Error()), 500)
	assert.NotContains(t, Unreachable("%s", "a\x1b[31m\nb").Error(), "\x1b")
	assert.True(t, Answered(nil))
	assert.True(t, Answered(ErrDisabled))
}
