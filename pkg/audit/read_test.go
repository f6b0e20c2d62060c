package audit

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

const (
	one   = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"one","responseObject":{"kind":"Pod"}}`
	two   = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"two"}`
	batch = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[{"auditID":"three"},{"auditID":"four"}]}`
)

func TestRead(t *testing.T) {
	tests := map[string]struct {
		log       string
		want      []string
		wantError string
	}{
		"nothing":            {},
		"lines":              {log: one + "\n" + two + "\n", want: []string{"one", "two"}},
		"no newline at end":  {log: one + "\n" + two, want: []string{"one", "two"}},
		"cut last line":      {log: one + "\n" + two[:20], want: []string{"one"}},
		"empty lines":        {log: "\n" + one + "\r\n\n" + two, want: []string{"one", "two"}},
		"a list on a line":   {log: batch + "\n", want: []string{"three", "four"}},
		"torn in the middle": {log: one[:30] + "\n" + two + "\n", want: []string{"two"}, wantError: "line 1 is no JSON of an audit event"},
		"another kind":       {log: one + "\n{\"kind\":\"Pod\",\"apiVersion\":\"audit.k8s.io/v1\"}\n", want: []string{"one"}, wantError: `line 2 has kind "Pod", not Event`},
		"another version":    {log: "{\"kind\":\"Event\",\"apiVersion\":\"v1\"}\n", wantError: `line 1 has apiVersion "v1", not audit.k8s.io/v1`},
		"many faults are counted": {log: strings.Repeat("x\n", 5) + two + "\n", want: []string{"two"},
			wantError: "; 2 more lines cannot be read either"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			err := Read(strings.NewReader(test.log), func(event *auditv1.Event) error {
				got = append(got, string(event.AuditID))
				return nil
			})
			assert.Equal(t, test.want, got)
			if test.wantError == "" {
				require.NoError(t, err)
				return
			}
			var unreadable *Unreadable
			require.ErrorAs(t, err, &unreadable)
			assert.ErrorContains(t, err, test.wantError)
		})
	}
}

func TestReadStopsWithTheCallee(t *testing.T) {
	enough := errors.New("enough")
	err := Read(strings.NewReader(two+"\n"+one+"\n"), func(*auditv1.Event) error { return enough })
	require.ErrorIs(t, err, enough)
	assert.ErrorContains(t, err, "line 1")
}

func TestReadPassesOverALineThatIsTooLong(t *testing.T) {
	long := io.MultiReader(strings.NewReader(`{"kind":"`), io.LimitReader(endless{}, MaxLine), strings.NewReader("\n"+two+"\n"))
	var got []string
	err := Read(long, func(event *auditv1.Event) error {
		got = append(got, string(event.AuditID))
		return nil
	})
	assert.ErrorContains(t, err, "line 1 is longer than 16 MiB")
	assert.Equal(t, []string{"two"}, got)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	plain, packed := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit-old.log.gz")
	cut, empty := filepath.Join(dir, "cut.gz"), filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(plain, []byte(one+"\n"+two+"\n"), 0o600))
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	pack(t, packed, batch+"\n")
	whole, err := os.ReadFile(packed)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cut, whole[:len(whole)-12], 0o600))

	var got []string
	each := func(event *auditv1.Event) error {
		got = append(got, string(event.AuditID))
		return nil
	}
	require.NoError(t, ReadFile(packed, each))
	require.NoError(t, ReadFile(plain, each))
	require.NoError(t, ReadFile(empty, each))
	assert.Equal(t, []string{"three", "four", "one", "two"}, got)

	require.ErrorIs(t, ReadFile(cut, each), io.ErrUnexpectedEOF)
	require.ErrorIs(t, ReadFile(filepath.Join(dir, "absent"), each), os.ErrNotExist)
}

func pack(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.Create(path)
	require.NoError(t, err)
	out := gzip.NewWriter(file)
	_, err = io.WriteString(out, text)
	require.NoError(t, errors.Join(err, out.Close(), file.Close()))
}
