package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// requestOptions are the flags of request.
type requestOptions struct {
	output         output
	in             string
	reason         string
	duration       time.Duration
	after, before  moment
	use            []string
	methods, paths []string
	run            string
	serviceAccount string
	tokenJTI       string
	wait, again    bool
	timeout        time.Duration
}

func (p *program) request() *cobra.Command {
	o := &requestOptions{}
	cmd := verb(&cobra.Command{
		Use:   "request KIND/NAME",
		Short: "Ask for the use of an object",
		Long: `Ask for the use of an object: for yourself, or with --run for the service account of one of your runs.

Equal asks meet: where somebody asked for the same already, that request is taken as your own. The exit code says whether
asking succeeded; with --wait it says what came of it.` +
			exits(codes{ExitDone: "asked, or with --wait granted", ExitDenied: "refused, or with --wait rejected or ended", ExitPending: "still pending at the time-out", ExitNotFound: "no such object or run"}),
		Example: example(`
# Ask for yourself, for everything that is not a read
{{}} request connector/prod-harbor -n prod --in team-a --reason "promote 1.4.2"

# Ask for pushes to one repository during two hours, and wait for the answer
{{}} request connector/prod-harbor -n prod --in team-a --reason "hotfix" --for 2h --use Write --paths '/v2/app/**' --wait

# Ask for a run before it reaches the gate
{{}} request connector/prod-harbor -n prod --in team-a --reason "release 7" --run pipelinerun/release-7

# Ask anew, ending the request that is open
{{}} request connector/prod-harbor -n prod --in team-a --reason "promote 1.4.3" --again`),
		Args: exactlyOne,
	}, func(ctx context.Context, args []string) error { return p.runRequest(ctx, o, args[0]) })
	o.addTo(cmd)
	return cmd
}

func (o *requestOptions) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.in, "in", "", "Namespace of the request. Default: the namespace of the kubeconfig's context; -n is the object's.")
	flags.StringVar(&o.reason, "reason", "", "Why you ask, in your words; approvers read it.")
	flags.DurationVar(&o.duration, "for", 0, "How long the grant shall last once it is given, e.g. 2h.")
	flags.Var(&o.after, "after", "Earliest moment of use, e.g. 2030-01-31T18:00:00Z.")
	flags.Var(&o.before, "before", "Last moment of use, e.g. 2030-01-31T22:00:00Z.")
	flags.StringSliceVar(&o.use, "use", nil, "Operations: Read, Write, or Read,Write. Default: everything that is not a read.")
	flags.StringSliceVar(&o.methods, "methods", nil, "HTTP methods, e.g. PUT,POST. Default: all.")
	flags.StringSliceVar(&o.paths, "paths", nil, "Path patterns: * is one segment, ** at the end any number. Default: all.")
	flags.StringVar(&o.run, "run", "", "Run to ask for, e.g. pipelinerun/NAME or job/NAME, in the request's namespace.")
	flags.StringVar(&o.serviceAccount, "service-account", "", "Service account of the run. Default: the run's own.")
	flags.StringVar(&o.tokenJTI, "token-jti", "", "Narrow the grant to one token: its jti, or 'current' for the kubeconfig's.")
	flags.BoolVar(&o.wait, "wait", false, "Wait for the answer; the exit code says which.")
	flags.DurationVar(&o.timeout, "timeout", 0, "How long to wait. Default: until answered.")
	flags.BoolVar(&o.again, "again", false, "End the request that is open for the same, and ask anew.")
	o.output.addTo(cmd)
	must(cmd.RegisterFlagCompletionFunc("use", cobra.FixedCompletions([]string{"Read", "Write", "Read,Write"}, cobra.ShellCompDirectiveNoFileComp)))
}

func (p *program) runRequest(ctx context.Context, o *requestOptions, object string) error {
	if err := o.validate(); err != nil {
		return err
	}
	c, err := p.dial(p)
	if err != nil {
		return err
	}
	wanted, err := p.build(ctx, c, o, object)
	if err != nil {
		return err
	}
	req, met, err := p.ask(ctx, c, o, wanted)
	if err != nil {
		return err
	}
	if !o.output.machine() {
		p.tellAsked(req, met, o.wait)
	}
	if o.wait {
		return p.waitFor(ctx, c, keyOf(req.Namespace, req.Name), o.timeout, &o.output)
	}
	if o.output.machine() {
		return o.output.print(p.streams.Out, false, namedObject(setKind(c.Scheme(), req)))
	}
	return nil
}

func (o *requestOptions) validate() error {
	if o.duration < 0 || o.timeout < 0 {
		return usage("--for and --timeout take a positive duration, e.g. 2h")
	}
	if o.timeout > 0 && !o.wait {
		return usage("--timeout goes with --wait")
	}
	if o.serviceAccount != "" && o.run == "" {
		return usage("--service-account goes with --run: name the run that uses it")
	}
	if o.tokenJTI != "" && o.run != "" {
		return usage("--token-jti and --run exclude each other: a run has tokens of its own")
	}
	for i, path := range o.paths {
		if !strings.HasPrefix(path, "/") {
			return usage("--paths: %s must begin with /", words(o.paths[i]))
		}
	}
	return o.validateUse()
}

func (o *requestOptions) validateUse() error {
	for i, use := range o.use {
		switch strings.ToLower(use) {
		case "read":
			o.use[i] = string(approvalv1alpha1.OperationRead)
		case "write":
			o.use[i] = string(approvalv1alpha1.OperationWrite)
		default:
			return usage("--use: %s is neither Read nor Write", words(use))
		}
	}
	for i, method := range o.methods {
		o.methods[i] = strings.ToUpper(method)
	}
	return nil
}

// build writes down what is asked for; whose use it is follows from the caller, and the server says so.
func (p *program) build(ctx context.Context, c *cluster, o *requestOptions, word string) (*approvalv1alpha1.ResourceCheckRequest, error) {
	namespace, err := p.namespace()
	if err != nil {
		return nil, err
	}
	in := o.in
	if in == "" {
		if in, err = p.homeNamespace(); err != nil {
			return nil, err
		}
	}
	object, err := c.target(word, namespace)
	if err != nil {
		return nil, err
	}
	req := &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, GenerateName: approvalv1alpha1.ReservedNamePrefix},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: *object, Use: o.selector(), TimeRange: o.timeRange(), Reason: o.reason,
		},
	}
	return req, p.buildContext(ctx, c, o, req)
}

func (p *program) buildContext(ctx context.Context, c *cluster, o *requestOptions, req *approvalv1alpha1.ResourceCheckRequest) (err error) {
	if o.run != "" {
		if req.Spec.Context.Resource, err = c.target(o.run, req.Namespace); err != nil {
			return err
		}
	}
	if o.serviceAccount != "" {
		req.Spec.Context.Subject = &approvalv1alpha1.Subject{
			Kind: approvalv1alpha1.SubjectServiceAccount, Namespace: req.Namespace, Name: o.serviceAccount,
		}
	}
	jti := o.tokenJTI
	if jti == "current" {
		if jti, err = currentJTI(ctx, c.config); err != nil {
			return err
		}
	}
	if jti != "" {
		req.Spec.Context.Token = &approvalv1alpha1.TokenReference{JTI: jti}
	}
	return nil
}

func (o *requestOptions) selector() *approvalv1alpha1.OperationSelector {
	if len(o.use)+len(o.methods)+len(o.paths) == 0 {
		return nil
	}
	selector := &approvalv1alpha1.OperationSelector{}
	for _, use := range o.use {
		selector.Operations = append(selector.Operations, approvalv1alpha1.OperationClass(use))
	}
	if len(o.methods)+len(o.paths) > 0 {
		selector.HTTP = &approvalv1alpha1.HTTPSelector{Methods: o.methods, Paths: o.paths}
	}
	return selector
}

func (o *requestOptions) timeRange() *approvalv1alpha1.TimeRange {
	if o.duration == 0 && o.after.IsZero() && o.before.IsZero() {
		return nil
	}
	timeRange := &approvalv1alpha1.TimeRange{After: o.after.api(), Before: o.before.api()}
	if o.duration > 0 {
		timeRange.Duration = &metav1.Duration{Duration: o.duration}
	}
	return timeRange
}

// maxAsks bounds how often a request is asked for whose equal ended between the refusal and the look at it.
const maxAsks = 4

// ask creates the request. met tells that an equal one was live, which is then returned in its place.
func (p *program) ask(ctx context.Context, c *cluster, o *requestOptions, wanted *approvalv1alpha1.ResourceCheckRequest) (
	req *approvalv1alpha1.ResourceCheckRequest, met bool, err error,
) {
	for range maxAsks {
		req = wanted.DeepCopy()
		err = c.Create(ctx, req)
		live := liveName(err)
		switch {
		case apierrors.IsConflict(err):
		case live == "":
			return req, false, err
		default:
			req.Name = live
			if met, err = p.meet(ctx, c, o, req); met || err != nil {
				return req, met, err
			}
		}
	}
	return nil, false, fail(ExitError, "equal requests keep ending while this one is asked for: try again")
}

// meet looks at the equal request, of which only the name is known, and ends it if that is wished. The answer is no if
// the request has ended, so that asking anew succeeds.
func (p *program) meet(ctx context.Context, c *cluster, o *requestOptions, live *approvalv1alpha1.ResourceCheckRequest) (bool, error) {
	stored, err := c.request(ctx, live.Namespace, live.Name)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err) && !o.again:
		// Who may only create still learns the name.
		return true, nil
	case err != nil:
		return false, err
	}
	*live = *stored
	switch {
	case p.isOver(live):
		return false, nil
	case o.again:
		return false, p.endFirst(ctx, c, o, live)
	}
	return true, nil
}

func (p *program) isOver(req *approvalv1alpha1.ResourceCheckRequest) bool {
	s := situationOf(req, p.clock.Now())
	return s.final() && s.state != stateGranted
}

// liveName is the request that a conflict speaks of, empty for other errors and none. The server gives requests their
// names, so a conflict means that an equal one is live.
func liveName(err error) string {
	var api apierrors.APIStatus
	if !apierrors.IsAlreadyExists(err) || !errors.As(err, &api) || api.Status().Details == nil {
		return ""
	}
	return api.Status().Details.Name
}

// endFirst revokes the live request and waits until its end is recorded.
func (p *program) endFirst(ctx context.Context, c *cluster, o *requestOptions, live *approvalv1alpha1.ResourceCheckRequest) error {
	if err := revokeRequest(ctx, c, live, cut("asked again: "+orElse(o.reason, "no reason given"))); err != nil {
		return err
	}
	p.tell("ended %s/%s", live.Namespace, live.Name)
	return p.untilEnded(ctx, c, keyOf(live.Namespace, live.Name))
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func (p *program) tellAsked(req *approvalv1alpha1.ResourceCheckRequest, met, waiting bool) {
	if met {
		p.say("already asked: %s", req.Name)
	} else {
		p.say("asked: %s", req.Name)
	}
	if !waiting {
		p.say("wait for the answer with: %s", command("wait", req.Name, "-n", req.Namespace))
	}
}

// maxReason is the limit of the API for reasons and comments.
const maxReason = 1024

// moment is a flag that takes a time in RFC 3339, kept in UTC and whole seconds as the API wants it.
type moment struct{ time.Time }

func (m *moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}

// Type implements pflag.Value.
func (*moment) Type() string { return "time" }

// Set implements pflag.Value.
func (m *moment) Set(text string) error {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("write the time as 2030-01-31T18:00:00Z or with an offset such as +02:00")
	}
	m.Time = t.UTC().Truncate(time.Second)
	return nil
}

func (m *moment) api() *metav1.Time {
	if m.IsZero() {
		return nil
	}
	return &metav1.Time{Time: m.Time}
}

// cut shortens a text that the API bounds.
func cut(text string) string { return plaintext.Line(text, maxReason) }
