package static

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxBytes bounds what is read: some hundred thousand people.
const maxBytes = 32 << 20

type digest [sha256.Size]byte

// file is one file of people; its name is without the folder.
type file struct {
	name    string
	content []byte
}

type files []file

func (f files) digest() (sum digest) {
	hash := sha256.New()
	for _, file := range f {
		for _, part := range [][]byte{[]byte(file.name), file.content} {
			hash.Write(binary.AppendUvarint(nil, uint64(len(part))))
			hash.Write(part)
		}
	}
	hash.Sum(sum[:0])
	return sum
}

// turns is how often a mount that is replaced while it is read is read anew.
const turns = 5

// read returns the file, or those of the folder in the order of their names.
func read(path string) (files, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.IsDir() {
		return readAll(filepath.Dir(path), []string{filepath.Base(path)})
	}
	for range turns {
		folder := version(path)
		all, err := readFolder(folder)
		if version(path) == folder {
			return all, err
		}
	}
	return nil, errors.New("the folder is replaced all the time")
}

// version is the folder itself, or what its link ..data points to: the kubelet replaces a mount by pointing it elsewhere,
// and then removes file by file what was there. So files belong together if the link is the same before and after reading
// them; else some may have gone already, and people with them.
func version(path string) string {
	if target, err := filepath.EvalSymlinks(filepath.Join(path, "..data")); err == nil {
		return target
	}
	return path
}

func readFolder(folder string) (files, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, withoutPath(err)
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		return nil, errors.New("the folder has no file *.yaml, *.yml or *.json")
	}
	return readAll(folder, names)
}

func readAll(folder string, names []string) (files, error) {
	var all files
	left := int64(maxBytes)
	for _, name := range names {
		content, err := readOne(filepath.Join(folder, name), left)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		left -= int64(len(content))
		all = append(all, file{name: name, content: content})
	}
	return all, nil
}

func readOne(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("there are more than %d MiB of people; use a real directory for so many", maxBytes>>20)
	}
	return content, nil
}

// withoutPath leaves out where files lie: the text is shown to people who wait.
func withoutPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
