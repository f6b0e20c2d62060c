package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"

	"github.com/AlaudaDevops/countersign/test/env"
)

// upTimeout bounds all of up; on an idle machine it takes a tenth of that.
const upTimeout = 2 * time.Minute

func newUpCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the environment, or what of it is missing",
		Long: `Start the environment, or what of it is missing. State, ports and settings are kept until "down". A program
that was built anew, or is given other settings, is replaced; nothing restarts by itself.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := newPlace(dir)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), upTimeout)
			defer cancel()
			return runUp(ctx, cmd.OutOrStdout(), p, given(cmd.Flags()))
		},
	}
	addDirFlag(cmd.Flags(), &dir)
	addSettingFlags(cmd.Flags())
	return cmd
}

// environment is one that is being brought up.
type environment struct {
	place
	out      io.Writer
	clock    clock.PassiveClock
	settings settings
	cluster  *env.Cluster
	tokens   map[string]string
	at       endpoints
}

// part is a step of up. Each may be done again at any time.
type part struct {
	name string
	do   func(context.Context) error
}

// parts are in the order of their needs: admission of connectors and rules is the controller's.
func (e *environment) parts() []part {
	return []part{
		{"control plane", e.startCluster},
		{"people", e.givePeopleTokens},
		{"manifests", e.applyManifests},
		{"namespaces and rights", e.applyRights},
		{"Tekton", e.startTekton},
		{"registry", e.startRegistry},
		{"controller", e.startController},
		{"connectors and rules", e.applyConnectors},
		{"releases", e.applyReleases},
		{"proxy", e.startProxy},
	}
}

func runUp(ctx context.Context, out io.Writer, p place, added settings) error {
	release, err := p.claim()
	if err != nil {
		return err
	}
	defer release()
	all, err := p.rememberSettings(added)
	if err != nil {
		return err
	}
	e := &environment{place: p, out: out, clock: clock.RealClock{}, settings: all, tokens: map[string]string{}}
	if err := e.do(ctx); err != nil {
		return err
	}
	return e.summary()
}

func (e *environment) do(ctx context.Context) error {
	begun := e.clock.Now()
	for _, part := range e.parts() {
		start := e.clock.Now()
		err := part.do(ctx)
		if recorded := e.recordPIDs(); err == nil {
			err = recorded
		}
		if err != nil {
			return fmt.Errorf("the part %q failed: %w", part.name, err)
		}
		e.say("  %-22s %5.1fs", part.name, e.clock.Since(start).Seconds())
	}
	e.say("  %-22s %5.1fs", "ready after", e.clock.Since(begun).Seconds())
	return nil
}

func (e *environment) say(format string, args ...any) {
	_, _ = fmt.Fprintf(e.out, format+"\n", args...)
}

func (e *environment) startCluster(ctx context.Context) error {
	crds := e.conf("crds.yaml")
	rendered, err := render(e.manifest("crd"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(crds, []byte(rendered), 0o600); err != nil {
		return err
	}
	e.cluster, err = env.Start(ctx, env.Detached(e.dir, e.bin("dev")), env.WithBinaries(e.bin("")),
		env.WithAudit(auditv1.LevelMetadata), env.WithCRDs(crds))
	if err != nil {
		return err
	}
	e.at, err = newEndpoints(e.cluster)
	return err
}

func (e *environment) givePeopleTokens(context.Context) (err error) {
	for _, who := range people() {
		if e.tokens[who.name], err = e.personToken(e.cluster.Issuer(), who, e.clock); err != nil {
			return err
		}
	}
	if err := e.writeKubeconfig(); err != nil {
		return err
	}
	if err := e.writeTokenScript(); err != nil {
		return err
	}
	return e.writeEnv()
}

// recordPIDs tells people and scripts what to watch, or to kill.
func (e *environment) recordPIDs() error {
	if e.cluster == nil {
		return nil
	}
	for _, process := range e.cluster.Processes() {
		if err := os.WriteFile(e.pid(process.Name), []byte(strconv.Itoa(process.PID)+"\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}
