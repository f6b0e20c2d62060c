package imports

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var invariantTest = regexp.MustCompile(`(?m)^func (TestS[0-9]+_\w+)\(`)

// docs/SECURITY.md says which test attacks which invariant. Readers rely on it, so it must name every such test,
// where it really is, and none that is gone.
func TestSecurityNamesEveryTestOfAnInvariant(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "SECURITY.md"))
	require.NoError(t, err)
	written := map[string]bool{}
	for _, link := range regexp.MustCompile(`\[(TestS[0-9]+_\w+)\]\(\.\./([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		written[link[1]+" in "+link[2]] = true
	}
	require.NotEmpty(t, written)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		for _, found := range invariantTest.FindAllStringSubmatch(string(content), -1) {
			key := found[1] + " in " + filepath.ToSlash(rel)
			assert.Truef(t, written[key], "docs/SECURITY.md does not link %s", key)
			delete(written, key)
		}
		return nil
	})
	require.NoError(t, err)
	assert.Empty(t, written, "docs/SECURITY.md links tests that are not there")
}
