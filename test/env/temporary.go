package env

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const temporaryPrefix = "countersign-env-"

// temporaryState makes a directory for a cluster that keeps nothing and removes those of test
// binaries that were killed: each holds 60 MiB of etcd's log.
func temporaryState() (string, error) {
	sweep(os.TempDir())
	return os.MkdirTemp("", fmt.Sprintf("%s%d-", temporaryPrefix, os.Getpid()))
}

// sweep leaves what it cannot remove: another sweep may be at work there.
func sweep(dir string) {
	found, err := filepath.Glob(filepath.Join(dir, temporaryPrefix+"*"))
	if err != nil {
		return
	}
	for _, each := range found {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(each), temporaryPrefix), "-")
		if pid, err := strconv.Atoi(owner); err == nil && birth(pid) == "" {
			_ = os.RemoveAll(each)
		}
	}
}
