package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	output       output
	proxy        proxyFlags
	method, path string
	user         string
	groups       []string
}

// verdict is what the proxy says of a use, without making it; Status and further are those of the answer that the use
// would get.
type verdict struct {
	Verdict    string                            `json:"verdict,omitempty"`
	Title      string                            `json:"title,omitempty"`
	Status     int                               `json:"status,omitempty"`
	Reason     string                            `json:"reason"`
	Detail     string                            `json:"detail,omitempty"`
	ID         string                            `json:"id,omitempty"`
	Request    string                            `json:"request,omitempty"`
	WaitingFor []duckv1alpha1.CheckWaiting       `json:"waitingFor,omitempty"`
	Ask        string                            `json:"ask,omitempty"`
	SeenAs     string                            `json:"seenAs,omitempty"`
	Operations []string                          `json:"operations,omitempty"`
	Rules      []verdictRule                     `json:"rules,omitempty"`
	Context    *approvalv1alpha1.ObjectReference `json:"context,omitempty"`
	Until      *time.Time                        `json:"until,omitempty"`
}

// verdictRule is a rule that applies to the use.
type verdictRule struct {
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

const verdictAllow = "allow"

func (p *program) explain() *cobra.Command {
	o := &explainOptions{}
	cmd := verb(&cobra.Command{
		Use:   "explain connector/NAME",
		Short: "Say whether a use would be allowed now, and why",
		Long: "Say whether a use of a connector would be allowed now, why, and what to do next. The tool is not touched." +
			exits(codes{ExitDone: "allowed", ExitError: "it cannot be decided", ExitDenied: "denied", ExitPending: "pending", ExitNotFound: "no such connector"}),
		Example: example(`
# May I push?
{{}} explain connector/prod-harbor -n prod --method PUT --path /v2/app/manifests/1

# As an owner (verb explain on connectors): may somebody else?
{{}} explain connector/prod-harbor -n prod --for-user dev@example.com --for-group developers`),
		Args: exactlyOne,
	}, func(ctx context.Context, args []string) error { return p.runExplain(ctx, o, args[0]) })
	flags := cmd.Flags()
	flags.StringVar(&o.method, "method", http.MethodGet, "HTTP method of the use.")
	flags.StringVar(&o.path, "path", "/", "Path of the use, as the tool sees it.")
	flags.StringVar(&o.user, "for-user", "", "Ask for another user. Needs the verb explain.")
	flags.StringSliceVar(&o.groups, "for-group", nil, "Groups of that user.")
	o.proxy.addTo(cmd)
	o.output.addTo(cmd)
	return cmd
}

func (p *program) runExplain(ctx context.Context, o *explainOptions, word string) error {
	name, err := o.connector(word)
	if err != nil {
		return err
	}
	if p.impersonates() {
		return usage("--as does not reach the proxy: use --for-user")
	}
	namespace, err := p.namespace()
	if err != nil {
		return err
	}
	c, err := p.dial(p)
	if err != nil {
		return err
	}
	x, err := p.proxy(ctx, c, o.proxy)
	if err != nil {
		return err
	}
	v := &verdict{}
	status, err := x.get(ctx, "/-/explain", o.query(namespace, name), v)
	if err != nil {
		return err
	}
	if v.Reason == "" {
		return fail(ExitError, "the proxy at %s answers %d without a reason: is it a Countersign proxy?", x.base.Host, status)
	}
	return p.tellVerdict(o, v)
}

func (o *explainOptions) connector(word string) (string, error) {
	kind, name, both := strings.Cut(word, "/")
	if !both {
		kind, name = "connector", word
	}
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	if !slices.Contains([]string{"connector", "connectors", "conn"}, kind) || name == "" || strings.Contains(name, "/") {
		return "", usage("%s is no connector/NAME", words(word))
	}
	if len(o.groups) > 0 && o.user == "" {
		return "", usage("--for-group goes with --for-user")
	}
	if !strings.HasPrefix(o.path, "/") {
		return "", usage("--path must begin with /")
	}
	return name, nil
}

func (p *program) impersonates() bool {
	return p.flags.Impersonate != nil && *p.flags.Impersonate != ""
}

func (o *explainOptions) query(namespace, name string) url.Values {
	query := url.Values{
		"namespace": {namespace}, "connector": {name}, "method": {strings.ToUpper(o.method)}, "path": {o.path},
	}
	if o.user != "" {
		query.Set("user", o.user)
		query["groups"] = o.groups
	}
	return query
}

// allowed takes a refusal to explain, which has no verdict, for a no.
func (v *verdict) allowed() bool {
	return v.Verdict == verdictAllow
}

func (v *verdict) code() int {
	if v.allowed() {
		return ExitDone
	}
	switch v.Reason {
	case approvalv1alpha1.ReasonChecksPending, approvalv1alpha1.ReasonNotYetValid, approvalv1alpha1.ReasonOriginPending:
		return ExitPending
	case approvalv1alpha1.ReasonConnectorUnknown:
		return ExitNotFound
	case approvalv1alpha1.ReasonUnauthenticated, approvalv1alpha1.ReasonNotReady, approvalv1alpha1.ReasonStale, approvalv1alpha1.ReasonUnguarded:
		return ExitError
	}
	return ExitDenied
}

func (v *verdict) word() string {
	switch v.code() {
	case ExitDone:
		return "allowed"
	case ExitPending:
		return "pending"
	case ExitError:
		return "cannot be decided"
	}
	return "denied"
}

func (p *program) tellVerdict(o *explainOptions, v *verdict) error {
	if o.output.format == outputName {
		p.say("%s", showName(v.Reason))
		return told(v.code())
	}
	if o.output.machine() {
		if err := o.output.document(p.streams.Out, v); err != nil {
			return err
		}
		return told(v.code())
	}
	s := &sheet{}
	s.field("Verdict", "%s (%s)", v.word(), showName(v.Reason))
	s.optional("Why", show(v.Detail))
	s.optional("Does", show(strings.Join(v.Operations, ", ")))
	s.optional("Run", runText(v.Context))
	s.list("Rules", v.ruleLines())
	s.optional("Request", show(v.Request))
	s.optional("Waiting for", waitingText(v.WaitingFor))
	s.optional("Seen as", show(v.SeenAs))
	if o.output.format == outputWide {
		s.optional("Id", show(v.ID))
	}
	s.optional("Next", v.next())
	p.say("%s", strings.TrimSuffix(s.String(), "\n"))
	return told(v.code())
}

func (v *verdict) ruleLines() []string {
	lines := make([]string, 0, len(v.Rules))
	for _, r := range v.Rules {
		lines = append(lines, fmt.Sprintf("%s, generation %d", showName(r.Name), r.Generation))
	}
	return lines
}

// next is a command that helps, if one does.
func (v *verdict) next() string {
	switch {
	case v.allowed():
		return ""
	case v.code() == ExitPending && v.Request != "":
		return command("wait", v.Request)
	}
	return show(v.Ask)
}
