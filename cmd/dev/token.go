package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/AlaudaDevops/countersign/test/env"
)

func newTokenCommand() *cobra.Command {
	var dir string
	var groups []string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Print a new token of a person",
		Long: `Print a new token, with a jti of its own, of the person NAME@example.com, or of NAME if it is an address.
The groups are the person's usual ones unless --groups is given. A negative --ttl makes an expired token.`,
		Example: "  .dev/token developer --ttl 5s\n  .dev/token auditor --groups prod-owners,auditors",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("groups") {
				groups = groupsOf(args[0])
			}
			token, err := newToken(dir, args[0], groups, ttl)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	addDirFlag(cmd.Flags(), &dir)
	cmd.Flags().StringSliceVar(&groups, "groups", nil, "groups of the person")
	cmd.Flags().DurationVar(&ttl, "ttl", personTTL, "how long the token lasts")
	return cmd
}

func newToken(dir, name string, groups []string, ttl time.Duration) (string, error) {
	if ttl == 0 {
		return "", errors.New("a token cannot last no time at all; give --ttl another value")
	}
	p, err := newPlace(dir)
	if err != nil {
		return "", err
	}
	from, err := env.OpenIssuer(p.dir)
	if err != nil {
		return "", err
	}
	return mint(from, name, groups, ttl)
}

// writeTokenScript makes DIR/token, which calls this command for the environment.
func (p place) writeTokenScript() error {
	script := fmt.Sprintf(`#!/bin/sh
# Prints a new token: token NAME [--groups one,two] [--ttl 5s]
exec %s token --dir %s "$@"
`, quote(p.bin("dev")), quote(p.dir))
	return os.WriteFile(p.tokenScript(), []byte(script), 0o700)
}
