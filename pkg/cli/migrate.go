package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// migrateOptions are the flags of creators migrate.
type migrateOptions struct {
	auditLogs   []string
	assign      string
	to          string
	kinds       []string
	all         bool
	dryRun      bool
	progress    string
	concurrency int
	rate        float64
}

// Bounds and defaults of the flags.
const (
	usualConcurrency = 16
	maxConcurrency   = 256
	usualRate        = 100
)

func (p *program) creators() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "creators",
		Short: "Look after the records of who created what",
		Long: `Look after the records of who created what. The API server writes them for objects that are made; what is older has none
until an administrator assigns one with migrate.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.migrate())
	return cmd
}

func (p *program) migrate() *cobra.Command {
	o := &migrateOptions{}
	cmd := verb(&cobra.Command{
		Use:   "migrate [KIND/NAME...]",
		Short: "Assign creators to objects that are older than the records",
		Long: `Assign creators to objects that are older than the records of who created what: from audit logs of the API server, from a
list, or by hand. A creator that is there already is never replaced. What is assigned says who assigned it; it informs
people and proves nothing.

From audit logs, an object's creator is the user of the request that made an object of this UID. Where a log does not hold
UIDs (level Metadata), the name must agree, and the object's creation time with the request's within two seconds.

A list is YAML or JSON, [{kind, namespace, name, uid, user}, ...], or CSV with these words in its first line; uid may be
left out. - is standard input.

You need the verb migrate on creators.authority.alaudadevops.io, cluster-wide, and may list and patch the objects. Interrupt
the work when you like: what is assigned stays, and the same command goes on where it stopped. With --progress-file every
object that is done is written down, and is not looked at again.` +
			exits(codes{ExitError: "interrupted or failed", ExitDenied: "the server refused some", ExitNotFound: "an object that was named is not there"}),
		Example: example(`
# What would be found?
{{}} creators migrate -A --from-audit-log /var/log/kubernetes/audit.log,/var/log/kubernetes/audit-1.log.gz --dry-run

# Assign, so that it can be interrupted
{{}} creators migrate -A --from-audit-log audit.log --progress-file creators.progress

# Only some kinds of one namespace
{{}} creators migrate -n team-a --kinds jobs,pipelineruns.tekton.dev --from-audit-log audit.log

# By hand
{{}} creators migrate deployment/shop -n team-a --to alice@example.com
{{}} creators migrate --assign creators.csv`),
		Args: cobra.ArbitraryArgs, ValidArgsFunction: cobra.NoFileCompletions,
	}, func(ctx context.Context, args []string) error { return p.runMigrate(ctx, o, args) })
	o.addTo(cmd)
	must(cmd.RegisterFlagCompletionFunc("kinds", p.completeRecordedKinds()))
	return cmd
}

func (o *migrateOptions) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.auditLogs, "from-audit-log", nil, "Audit logs of the API server, plain or gzip.")
	flags.StringVar(&o.assign, "assign", "", "List of objects with their creators.")
	flags.StringVar(&o.to, "to", "", "User to assign to the objects that are named.")
	flags.StringSliceVar(&o.kinds, "kinds", nil, "Kinds to look for, with --from-audit-log. Default: those that the cluster records creators of.")
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "Look in all namespaces, and for kinds without one, with --from-audit-log.")
	flags.BoolVar(&o.dryRun, "dry-run", false, "Let the server check everything, and change nothing.")
	flags.StringVar(&o.progress, "progress-file", "", "File that remembers what is done; another run goes on from it.")
	flags.IntVar(&o.concurrency, "concurrency", usualConcurrency, "How many objects to work on at a time.")
	flags.Float64Var(&o.rate, "rate", usualRate, "How many requests to send per second.")
	must(cmd.MarkFlagFilename("from-audit-log"))
	must(cmd.MarkFlagFilename("assign"))
	must(cmd.MarkFlagFilename("progress-file"))
}

func (o *migrateOptions) validate(args []string) error {
	sources := 0
	for _, given := range []bool{len(o.auditLogs) > 0, o.assign != "", o.to != ""} {
		if given {
			sources++
		}
	}
	switch {
	case sources != 1:
		return usage("say where creators come from: one of --from-audit-log, --assign, or KIND/NAME with --to")
	case o.to != "" && len(args) == 0:
		return usage("--to goes with the objects to assign: give at least one KIND/NAME")
	case o.to == "" && len(args) > 0:
		return usage("%s: objects are named with --to only", words(args[0]))
	case (len(o.kinds) > 0 || o.all) && len(o.auditLogs) == 0:
		return usage("--kinds and --all-namespaces go with --from-audit-log")
	case o.concurrency < 1 || o.concurrency > maxConcurrency:
		return usage("--concurrency takes a number from 1 to %d", maxConcurrency)
	case o.rate <= 0 || math.IsInf(o.rate, 0) || math.IsNaN(o.rate):
		return usage("--rate takes a positive number")
	}
	return nil
}

func (p *program) runMigrate(ctx context.Context, o *migrateOptions, args []string) error {
	if err := o.validate(args); err != nil {
		return err
	}
	c, err := p.dial(p)
	if err != nil {
		return err
	}
	if err := c.mayMigrate(ctx); err != nil {
		return err
	}
	m, err := newMigrator(ctx, p, c, o)
	if err != nil {
		return err
	}
	begun := p.clock.Now()
	err = m.plan(ctx, args)
	if err == nil {
		err = m.work(ctx)
	}
	if closed := m.journal.close(); err == nil {
		err = closed
	}
	return m.end(err, p.clock.Since(begun))
}

// mayMigrate asks first, so that nobody waits for a long log to be read and then is refused everything.
func (c *cluster) mayMigrate(ctx context.Context) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: approvalv1alpha1.AuthorityGroup, Resource: approvalv1alpha1.ResourceCreators, Verb: approvalv1alpha1.VerbMigrate,
		},
	}}
	if err := c.Create(ctx, review); err != nil {
		return err
	}
	if !review.Status.Allowed {
		return fail(ExitDenied, "you may not assign creators: ask a cluster administrator for the verb %s on %s.%s, by a ClusterRole and a ClusterRoleBinding",
			approvalv1alpha1.VerbMigrate, approvalv1alpha1.ResourceCreators, approvalv1alpha1.AuthorityGroup)
	}
	return nil
}

// end tells what became of it all, whatever ended it.
func (m *migrator) end(err error, took time.Duration) error {
	m.p.say("%s", m.summary(took))
	switch {
	case errors.Is(err, context.Canceled):
		return fail(ExitError, "interrupted: what was assigned stays, and the same command goes on where it stopped")
	case err != nil:
		return err
	case m.tally.of(outcomeRefused) > 0:
		return told(ExitDenied)
	case m.tally.of(outcomeFailed) > 0:
		return told(ExitError)
	case m.tally.of(outcomeGone) > 0 && m.o.to != "":
		return told(ExitNotFound)
	}
	return nil
}

func (m *migrator) summary(took time.Duration) string {
	out := &sheet{}
	verb := "Assigned"
	if m.o.dryRun {
		verb = "Would assign"
	}
	out.field(verb, "%d, in %s", m.tally.of(outcomeAssigned), durationText(took.Round(time.Second)))
	for _, row := range []struct {
		name string
		of   outcome
	}{{"Done before", outcomeBefore}, {"Had one", outcomeHad}, {"No evidence", outcomeNoEvidence}, {"Gone", outcomeGone}} {
		if n := m.tally.of(row.of); n > 0 || row.of != outcomeBefore {
			out.field(row.name, "%d", n)
		}
	}
	for _, row := range []struct {
		name string
		of   outcome
	}{{"Refused", outcomeRefused}, {"Failed", outcomeFailed}} {
		if n := m.tally.of(row.of); n > 0 || row.of == outcomeRefused {
			out.list(row.name, append([]string{fmt.Sprint(n)}, m.tally.reasonsOf(row.of)...))
		}
	}
	return out.String()[:out.Len()-1]
}
