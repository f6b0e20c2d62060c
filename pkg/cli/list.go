package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// pollEvery is how often --watch looks for new items.
const pollEvery = 5 * time.Second

// listOptions are the flags of list.
type listOptions struct {
	output output
	proxy  proxyFlags
	at     where
	inbox  bool
	watch  bool
	exec   string
}

func (p *program) list() *cobra.Command {
	o := &listOptions{}
	cmd := verb(&cobra.Command{
		Use:   "list",
		Short: "List your requests, or with --inbox what waits for your answer",
		Long: `List your requests: those whose subject you are, that you asked for, or whose run you created. With --inbox list the
checks that wait for your answer, nearest deadline first: through the proxy in all namespaces and without a right to list,
and where no proxy is known those of namespace -n.

--exec runs a program for each item, once, and with --watch for each that comes or changes its state. It is started as it
stands, by no shell, with these variables set: COUNTERSIGN_ITEM (request or check), COUNTERSIGN_NAMESPACE, COUNTERSIGN_NAME,
COUNTERSIGN_REQUEST (namespace/name), COUNTERSIGN_OBJECT, COUNTERSIGN_SUBJECT, COUNTERSIGN_REQUESTED_BY, COUNTERSIGN_USE,
COUNTERSIGN_REASON, COUNTERSIGN_STATE, COUNTERSIGN_DEADLINE.` +
			exits(codes{ExitDone: "listed", ExitError: "error, or a program of --exec failed"}),
		Example: example(`
# My requests
{{}} list -n team-a

# What waits for my answer, in all namespaces, and what comes
{{}} list --inbox --watch

# Send me a message for each
{{}} list --inbox --watch --exec ./notify-me`),
		Args: cobra.NoArgs,
	}, func(ctx context.Context, _ []string) error { return p.runList(ctx, o) })
	flags := cmd.Flags()
	flags.BoolVar(&o.inbox, "inbox", false, "List the checks that wait for your answer.")
	flags.BoolVarP(&o.watch, "watch", "w", false, "Go on, and list what comes.")
	flags.StringVar(&o.exec, "exec", "", "Program to run for each item, with arguments separated by blanks.")
	flags.BoolVarP(&o.at.all, "all-namespaces", "A", false, "List in all namespaces.")
	o.at.addTo(cmd)
	o.proxy.addTo(cmd)
	o.output.addTo(cmd)
	return cmd
}

// item is a line of a list.
type item struct {
	// id changes with what makes the item new.
	id     string
	row    []string
	wide   []string
	object named
	facts  facts
}

// source is a list that can be read again and again.
type source struct {
	header, wide []string
	empty        string
	read         func(context.Context) ([]item, error)
}

func (p *program) runList(ctx context.Context, o *listOptions) error {
	runner, err := newRunner(o.exec)
	if err != nil {
		return err
	}
	c, err := p.dial(p)
	if err != nil {
		return err
	}
	me, err := c.whoami(ctx)
	if err != nil {
		return err
	}
	from, err := p.source(ctx, c, o, me)
	if err != nil {
		return err
	}
	l := &lister{p: p, o: o, from: from, run: runner, seen: map[string]bool{}}
	return l.loop(ctx)
}

func (p *program) source(ctx context.Context, c *cluster, o *listOptions, me approvalv1alpha1.Identity) (*source, error) {
	namespace, err := o.at.namespace(p)
	if err != nil {
		return nil, err
	}
	if o.at.all {
		namespace = metav1.NamespaceAll
	}
	if o.inbox {
		return p.inbox(ctx, c, o, namespace, me)
	}
	return p.requests(c, namespace, me), nil
}

// lister prints each item of a source once.
type lister struct {
	p      *program
	o      *listOptions
	from   *source
	run    *runner
	seen   map[string]bool
	failed bool
}

func (l *lister) loop(ctx context.Context) error {
	items, err := l.from.read(ctx)
	if err != nil {
		return err
	}
	if len(items) == 0 && !l.o.output.machine() {
		l.p.tell("%s", l.from.empty)
	}
	if err := l.take(ctx, items, true); err != nil {
		return err
	}
	for l.o.watch {
		if l.sleep(ctx) != nil {
			return nil
		}
		if items, err = l.from.read(ctx); err != nil {
			l.p.tell("%s", "warning: the list cannot be read, and is tried again: "+sentence(err))
			continue
		}
		if err := l.take(ctx, items, false); err != nil {
			return err
		}
	}
	if l.failed {
		return told(ExitError)
	}
	return nil
}

func (l *lister) sleep(ctx context.Context) error {
	timer := l.p.clock.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}

// take prints the items that are new and runs the program for them.
func (l *lister) take(ctx context.Context, items []item, first bool) error {
	fresh := items[:0:0]
	for _, it := range items {
		if !l.seen[it.id] {
			l.seen[it.id] = true
			fresh = append(fresh, it)
		}
	}
	if err := l.print(fresh, first); err != nil {
		return err
	}
	for _, it := range fresh {
		if err := l.run.run(ctx, l.p.streams, it.facts); err != nil {
			l.failed = true
			l.p.tell("warning: --exec failed for %s: %s", showName(it.facts.name), sentence(err))
		}
	}
	return nil
}

func (l *lister) print(items []item, first bool) error {
	if l.o.output.machine() {
		if len(items) == 0 && !first {
			return nil
		}
		objects := make([]named, 0, len(items))
		for _, it := range items {
			objects = append(objects, it.object)
		}
		return l.o.output.print(l.p.streams.Out, true, objects...)
	}
	if len(items) == 0 {
		return nil
	}
	t := &table{header: l.columns(l.from.header, l.from.wide)}
	for _, it := range items {
		t.rows = append(t.rows, l.columns(it.row, it.wide))
	}
	return t.print(l.p.streams.Out, first || len(l.seen) == len(items))
}

func (l *lister) columns(narrow, wide []string) []string {
	if l.o.output.format == outputWide {
		return slices.Concat(narrow, wide)
	}
	return narrow
}

// requests are the caller's own.
func (p *program) requests(c *cluster, namespace string, me approvalv1alpha1.Identity) *source {
	from := &source{
		header: []string{"NAME", "OBJECT", "SUBJECT", "STATE", "REASON", "UNTIL", "AGE"},
		wide:   []string{"USE", "REQUESTED-BY", "RUN", "WAITING"},
		empty:  "No requests of yours" + inNamespace(namespace) + ".",
	}
	if namespace == metav1.NamespaceAll {
		from.header = slices.Insert(from.header, 0, "NAMESPACE")
	}
	from.read = func(ctx context.Context) ([]item, error) {
		list := &approvalv1alpha1.ResourceCheckRequestList{}
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		slices.SortStableFunc(list.Items, newestFirst)
		var items []item
		for i := range list.Items {
			if req := &list.Items[i]; c.mine(ctx, req, me.Username) {
				items = append(items, p.requestItem(c, req, namespace == metav1.NamespaceAll))
			}
		}
		return items, nil
	}
	return from
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

func newestFirst(a, b approvalv1alpha1.ResourceCheckRequest) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (p *program) requestItem(c *cluster, req *approvalv1alpha1.ResourceCheckRequest, withNamespace bool) item {
	now := p.clock.Now()
	s := situationOf(req, now)
	until := none
	if !s.until.IsZero() {
		until = s.until.UTC().Format(time.RFC3339)
	}
	row := []string{
		req.Name, shortObject(req.Spec.ObjectRef), shortSubject(req.Spec.Context.Subject),
		s.state, showName(s.reason), until, ageText(req.CreationTimestamp.Time, now),
	}
	if withNamespace {
		row = slices.Insert(row, 0, req.Namespace)
	}
	return item{
		id:  string(req.UID) + "/" + s.state,
		row: row, wide: []string{
			useText(req.Spec.Use), showIdentity(req.Spec.RequestedBy), runText(req.Spec.Context.Resource), orElse(waitingText(s.waiting), none),
		},
		object: namedObject(setKind(c.Scheme(), req)), facts: factsOfRequest(req, s),
	}
}

func requestedBy(req *approvalv1alpha1.ResourceCheckRequest) string {
	if req.Spec.RequestedBy == nil {
		return ""
	}
	return req.Spec.RequestedBy.Username
}
