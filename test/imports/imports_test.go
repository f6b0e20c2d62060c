// Package imports proves that packages import each other downward only.
package imports

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/AlaudaDevops/countersign/"

// layers lists the tree from the bottom up. A package may import packages of lower layers only; siblings
// stay apart, save for what sameLayer allows.
var layers = [][]string{
	{"apis"},
	{"pkg/fingerprint", "pkg/operation", "pkg/quorum", "pkg/decision", "pkg/attribution", "pkg/chain", "pkg/plaintext"},
	{"pkg/checks", "pkg/archive", "pkg/audit", "pkg/authz", "pkg/directory", "pkg/login", "pkg/origin", "pkg/token", "config/policies"},
	{"pkg/gate"},
	{"pkg/controller", "pkg/webhook", "pkg/proxy", "pkg/csi", "pkg/cli"},
	{"cmd", "test"},
}

// sameLayer holds the imports between siblings that the design allows.
var sameLayer = map[string][]string{
	"pkg/decision": {"pkg/operation", "pkg/fingerprint"},
	"cmd":          {"test"}, // cmd/dev starts the test environment
	"test":         {"cmd"},  // tests start whole programs
	"pkg/checks":   {"pkg/checks"},
}

// pureCore may not reach clients, the network or the clock.
var forbiddenInPureCore = []string{"net", "net/http", "os", "k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/utils/clock"}

func TestImportsPointDownward(t *testing.T) {
	seen := 0
	eachFile(t, func(dir, path string, imports []string) {
		from, area := layerOf(dir)
		if from < 0 {
			return
		}
		seen++
		for _, imported := range imports {
			if target, ok := strings.CutPrefix(imported, module); ok {
				to, toArea := layerOf(target)
				assert.Truef(t, allowed(from, area, to, toArea), "%s (%s) imports %s: imports point downward only", path, area, target)
			}
		}
	})
	require.Greater(t, seen, 10, "the walk must find the tree")
}

func TestPureCoreHasNoClient(t *testing.T) {
	eachFile(t, func(dir, path string, imports []string) {
		if from, _ := layerOf(dir); from != 1 {
			return
		}
		for _, imported := range imports {
			for _, forbidden := range forbiddenInPureCore {
				assert.Falsef(t, imported == forbidden || strings.HasPrefix(imported, forbidden+"/") && forbidden != "net" && forbidden != "os",
					"%s imports %s: the pure core has no client, no I/O and no clock", path, imported)
			}
		}
	})
}

func TestEveryPackageHasALayer(t *testing.T) {
	eachFile(t, func(dir, path string, _ []string) {
		from, _ := layerOf(dir)
		assert.GreaterOrEqualf(t, from, 0, "%s lies in no layer of the design", path)
	})
}

func allowed(from int, area string, to int, toArea string) bool {
	if to < from || area == toArea && area != "pkg/controller" && area != "pkg/webhook" {
		return to >= 0
	}
	if area == toArea {
		return true
	}
	for _, sibling := range sameLayer[area] {
		if sibling == toArea {
			return true
		}
	}
	return false
}

func layerOf(dir string) (int, string) {
	for i, layer := range layers {
		for _, area := range layer {
			if dir == area || strings.HasPrefix(dir, area+"/") {
				return i, area
			}
		}
	}
	return -1, ""
}

// eachFile visits every Go file of the module that is no test, with the paths that it imports.
func eachFile(t *testing.T, visit func(dir, path string, imports []string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if entry.IsDir() {
			if rel != "." && (strings.HasPrefix(entry.Name(), ".") || rel == "bin" || rel == "test/cluster" || rel == "test/ecosystem" || entry.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		var imports []string
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, imported)
		}
		visit(filepath.ToSlash(filepath.Dir(rel)), rel, imports)
		return nil
	})
	require.NoError(t, err)
}
