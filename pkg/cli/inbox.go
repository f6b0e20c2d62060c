package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// inboxPage is what the proxy answers at /-/inbox, or the denial it answers with.
type inboxPage struct {
	Items    []approvalv1alpha1.ApprovalRequest `json:"items"`
	Continue string                             `json:"continue"`
	Reason   string                             `json:"reason"`
	Detail   string                             `json:"detail"`
}

// maxPages bounds how many pages of an inbox are read.
const maxPages = 1000

// inbox is what waits for the caller's answer.
func (p *program) inbox(ctx context.Context, c *cluster, o *listOptions, namespace string, me approvalv1alpha1.Identity) (*source, error) {
	from := &source{
		header: []string{"NAMESPACE", "NAME", "OBJECT", "REQUESTER", "USE", "DEADLINE", "REASON"},
		wide:   []string{"REQUEST", "SUBJECT", "RUN", "PERSON", "AGE"},
		empty:  "Nothing waits for your answer.",
	}
	read, err := p.inboxReader(ctx, c, o, namespace, me)
	if err != nil {
		return nil, err
	}
	from.read = func(ctx context.Context) ([]item, error) {
		checks, err := read(ctx)
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(checks, nearestDeadline)
		items := make([]item, 0, len(checks))
		for i := range checks {
			items = append(items, p.inboxItem(c, &checks[i]))
		}
		return items, nil
	}
	return from, nil
}

type inboxReader func(context.Context) ([]approvalv1alpha1.ApprovalRequest, error)

// inboxReader asks the proxy, which sees all namespaces, and otherwise the API server.
func (p *program) inboxReader(ctx context.Context, c *cluster, o *listOptions, namespace string, me approvalv1alpha1.Identity) (inboxReader, error) {
	fromServer := func(ctx context.Context) ([]approvalv1alpha1.ApprovalRequest, error) {
		return c.inbox(ctx, namespace, me)
	}
	if p.impersonates() {
		return fromServer, nil
	}
	x, err := p.proxy(ctx, c, o.proxy)
	if errors.Is(err, errNoProxy) {
		return fromServer, nil
	}
	if err != nil {
		return nil, err
	}
	if *p.flags.Namespace == "" && o.at.in == "" {
		namespace = metav1.NamespaceAll
	}
	return func(ctx context.Context) ([]approvalv1alpha1.ApprovalRequest, error) {
		checks, err := x.inbox(ctx)
		if errors.Is(err, errNoToken) {
			fmt.Fprintln(p.streams.ErrOut, "warning: the proxy cannot be asked without a token; the API server is asked about namespace "+orElse(namespace, "*"))
			return fromServer(ctx)
		}
		return slices.DeleteFunc(checks, func(check approvalv1alpha1.ApprovalRequest) bool {
			return namespace != metav1.NamespaceAll && check.Namespace != namespace
		}), err
	}, nil
}

// inbox reads all pages.
func (x *proxy) inbox(ctx context.Context) ([]approvalv1alpha1.ApprovalRequest, error) {
	var all []approvalv1alpha1.ApprovalRequest
	query := url.Values{}
	for range maxPages {
		page := &inboxPage{}
		status, err := x.get(ctx, "/-/inbox", query, page)
		if err != nil {
			return nil, err
		}
		if status != http.StatusOK {
			return nil, fail(ExitError, "the proxy refuses: %s (%s)", show(orElse(page.Detail, http.StatusText(status))), showName(page.Reason))
		}
		all = append(all, page.Items...)
		if page.Continue == "" {
			break
		}
		query.Set("continue", page.Continue)
	}
	return all, nil
}

// inbox finds out on this side what the caller may answer; who else asked for the same is not known here.
func (c *cluster) inbox(ctx context.Context, namespace string, me approvalv1alpha1.Identity) ([]approvalv1alpha1.ApprovalRequest, error) {
	checks, err := c.approvals(ctx, namespace)
	if err != nil {
		return nil, err
	}
	a := &answerer{me: me, o: &answerOptions{decision: approvalv1alpha1.DecisionApprove}}
	var mine []approvalv1alpha1.ApprovalRequest
	for _, check := range checks {
		if a.cannot(check) == "" {
			mine = append(mine, *check.approval)
		}
	}
	return mine, nil
}

func nearestDeadline(a, b approvalv1alpha1.ApprovalRequest) int {
	return cmp.Or(deadline(&a).Compare(deadline(&b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (p *program) inboxItem(c *cluster, check *approvalv1alpha1.ApprovalRequest) item {
	now := p.clock.Now()
	question := check.Spec.Request
	if question == nil {
		question = &approvalv1alpha1.CheckRequest{}
	}
	return item{
		id: string(check.UID),
		row: []string{
			check.Namespace, check.Name, objectName(question.Object), showName(question.RequestedBy.Username), useText(question.Use),
			remaining(deadline(check), now), plaintext.Quote(question.Reason, reasonColumn),
		},
		wide: []string{
			showName(question.Ref.Namespace + "/" + question.Ref.Name), shortSubject(&question.Subject), runText(outermost(question)),
			showName(question.Person), ageText(check.CreationTimestamp.Time, now),
		},
		object: setKind(c.Scheme(), check), facts: factsOfCheck(check),
	}
}

// reasonColumn is the width of reasons in a table, in runes.
const reasonColumn = 60

func objectName(ref approvalv1alpha1.ObjectReference) string { return showName(ref.Name) }

// outermost is the run itself, the last of the way up from the pod.
func outermost(question *approvalv1alpha1.CheckRequest) *approvalv1alpha1.ObjectReference {
	if len(question.Context) == 0 {
		return nil
	}
	return &question.Context[len(question.Context)-1].Resource
}

func remaining(deadline, now time.Time) string {
	if !deadline.After(now) {
		return "over"
	}
	return duration.HumanDuration(deadline.Sub(now))
}
