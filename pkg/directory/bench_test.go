package directory_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/static"
)

// people is how many the file of the benchmarks has.
const people = 1000

func benchmarked(b *testing.B, options directory.Options) *directory.Cached {
	b.Helper()
	path := filepath.Join(b.TempDir(), "people.yaml")
	var file strings.Builder
	file.WriteString("people:\n")
	for i := range people {
		fmt.Fprintf(&file, "- {username: person%d, displayName: Person %d, email: person%d@example.com}\n", i, i, i)
	}
	require.NoError(b, os.WriteFile(path, []byte(file.String()), 0o600))
	inner, err := static.New(static.Config{Path: path}, clock.RealClock{})
	require.NoError(b, err)
	return directory.New(inner, options, nil)
}

func lookup(b *testing.B, c *directory.Cached, name string) {
	if _, err := c.Lookup(b.Context(), name); err != nil {
		b.Error(err)
	}
}

func BenchmarkLookupCached(b *testing.B) {
	c := benchmarked(b, directory.Options{})
	lookup(b, c, "person7")
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Lookup(ctx, "person7"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookupCachedParallel(b *testing.B) {
	c := benchmarked(b, directory.Options{})
	names := make([]string, people)
	for i := range names {
		names[i] = fmt.Sprint("person", i)
		lookup(b, c, names[i])
	}
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := c.Lookup(ctx, names[i%people]); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkLookupUncached(b *testing.B) {
	c := benchmarked(b, directory.Options{Positive: -1})
	b.ReportAllocs()
	for b.Loop() {
		lookup(b, c, "person7")
	}
}
