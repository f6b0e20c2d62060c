package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/AlaudaDevops/countersign/test/env"
)

func newDownCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the environment and remove everything of it but the build",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := newPlace(dir)
			if err != nil {
				return err
			}
			if err := p.remove(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Nothing of the environment in %s is left.\n", p.dir)
			return err
		},
	}
	addDirFlag(cmd.Flags(), &dir)
	return cmd
}

// remove is done when there is nothing to remove.
func (p place) remove() error {
	if !exists(p.dir) {
		return nil
	}
	if !exists(p.lock()) {
		return fmt.Errorf("the directory %s is no development environment; nothing was removed", p.dir)
	}
	release, err := p.hold()
	if err != nil {
		return err
	}
	defer release()
	if env.IsStateDir(p.dir) {
		return env.Remove(p.dir)
	}
	return os.RemoveAll(p.dir)
}
