// Package static is a directory of people kept in a file, or in the files of a mounted ConfigMap or Secret.
package static

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// Config is the section `static` of the directory's configuration.
type Config struct {
	// Path is a file of people, or a folder whose files *.yaml, *.yml and *.json are read together.
	Path string `json:"path"`
}

// reread is how long a file is believed before it is read again.
const reread = 5 * time.Second

// Client is the directory. A file that cannot be read, or is not whole, is an outage: nobody is known and nobody is
// unknown until it is mended, and what it held before does not count.
type Client struct {
	path  string
	clock clock.PassiveClock

	mu      sync.Mutex
	checked time.Time
	sum     digest
	people  *people
	err     error
}

// New returns the directory. The file need not exist yet.
func New(c Config, clock clock.PassiveClock) (*Client, error) {
	if c.Path == "" {
		return nil, errors.New("path is missing: name the file of people, or the folder that holds such files")
	}
	return &Client{path: c.Path, clock: clock}, nil
}

// Lookup implements directory.Directory.
func (c *Client) Lookup(_ context.Context, username string) (*directory.Person, error) {
	people, err := c.current()
	if err != nil {
		return nil, &directory.UnavailableError{Why: err.Error(), RetryAfter: reread}
	}
	return people.find(username)
}

// current reads the file when it was last read too long ago.
func (c *Client) current() (*people, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if !c.checked.IsZero() && now.Sub(c.checked) < reread {
		return c.people, c.err
	}
	c.checked = now
	c.load()
	return c.people, c.err
}

// load parses only what changed. Files are compared by content, because a ConfigMap's mount changes by a symbolic link
// and an editor may keep size and time.
func (c *Client) load() {
	files, err := read(c.path)
	if err != nil {
		c.people, c.sum, c.err = nil, digest{}, fmt.Errorf("the people's file cannot be read: %w", err)
		return
	}
	sum := files.digest()
	if c.err == nil && c.people != nil && sum == c.sum {
		return
	}
	c.people, c.err = parse(files)
	c.sum = sum
}
