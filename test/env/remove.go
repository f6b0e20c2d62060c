package env

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/AlaudaDevops/countersign/test/env/issuer"
)

// Remove kills all processes of the detached cluster in the state directory, whether the cluster
// answers or not, and deletes the directory with everything in it. A directory that holds no
// cluster is left alone, with an error.
func Remove(stateDir string) error {
	l, err := existingLayout(stateDir)
	if err != nil {
		return err
	}
	s := &supervisor{layout: l, detached: true}
	if err := s.adopt(); err != nil {
		return err
	}
	return errors.Join(s.kill(), l.remove())
}

// OpenIssuer returns the issuer of the detached cluster in the state directory, to mint people's
// tokens; nothing of the cluster has to run.
func OpenIssuer(stateDir string) (*issuer.Issuer, error) {
	if _, err := existingLayout(stateDir); err != nil {
		return nil, err
	}
	c, err := newHelper(stateDir)
	if err != nil {
		return nil, err
	}
	return c.issuer, nil
}

// IsStateDir tells whether the directory holds a detached cluster's state.
func IsStateDir(dir string) bool { return exists(filepath.Join(dir, "run", "ports.json")) }

func existingLayout(stateDir string) (layout, error) {
	if !IsStateDir(stateDir) {
		return layout{}, fmt.Errorf("there is no cluster in %s; start one first", stateDir)
	}
	return newLayout(stateDir)
}
