package archive

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leaky takes so many bytes of each write, then fails.
type leaky struct {
	bytes.Buffer
	takes int
}

func (l *leaky) Write(p []byte) (int, error) {
	if l.takes < len(p) {
		n, _ := l.Buffer.Write(p[:l.takes])
		return n, errors.New("no space left on device")
	}
	return l.Buffer.Write(p)
}

func TestWriterBeginsAnewAfterATornLine(t *testing.T) {
	to := &leaky{takes: 3}
	sink := NewWriter(to)
	assert.ErrorContains(t, sink.Write([]byte("abcdef")), "nothing is deleted")
	to.takes = 0
	assert.Error(t, sink.Write([]byte("abcdef")))
	to.takes = 100
	require.NoError(t, sink.Write([]byte("abcdef")))
	require.NoError(t, sink.Write([]byte("ghi")))
	assert.Equal(t, "abc\nabcdef\nghi\n", to.String())
}

// short takes less than it was given and says nothing.
type short struct{}

func (short) Write(p []byte) (int, error) { return len(p) - 1, nil }

func TestWriterDoesNotBelieveAShortWrite(t *testing.T) {
	assert.ErrorIs(t, NewWriter(short{}).Write([]byte("a")), io.ErrShortWrite)
}

func TestFileAppendsAndFollowsRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evidence.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("old\ntor"), 0o600))
	sink, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, sink.Write([]byte("one")))
	require.NoError(t, os.Rename(path, path+".1"))
	require.NoError(t, sink.Write([]byte("two")))
	require.NoError(t, os.Remove(path))
	require.NoError(t, sink.Write([]byte("three")))

	rotated, err := os.ReadFile(path + ".1")
	require.NoError(t, err)
	assert.Equal(t, "old\ntor\none\n", string(rotated))
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "three\n", string(now))
}

func TestFileWithoutAFolderFailsAndRecovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	_, err := Open(filepath.Join(dir, "evidence.jsonl"))
	assert.ErrorContains(t, err, "cannot be opened")

	require.NoError(t, os.Mkdir(dir, 0o700))
	sink, err := Open(filepath.Join(dir, "evidence.jsonl"))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	assert.Error(t, sink.Write([]byte("lost")))
	require.NoError(t, os.Mkdir(dir, 0o700))
	assert.NoError(t, sink.Write([]byte("kept")))
}

func TestFileKeepsLinesOfManyWritersWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evidence.jsonl")
	sink, err := Open(path)
	require.NoError(t, err)
	line := bytes.Repeat([]byte("x"), 4096)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { assert.NoError(t, sink.Write(line)) })
	}
	all.Wait()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, got := range bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		assert.Equal(t, line, got)
	}
}
