package cli

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/quorum"
)

// waitingCheck is a check in somebody's inbox, in the form in which the proxy answers.
type waitingCheck struct {
	APIVersion  string                          `json:"apiVersion"`
	Kind        string                          `json:"kind"`
	Namespace   string                          `json:"namespace"`
	Name        string                          `json:"name"`
	UID         types.UID                       `json:"uid"`
	Deadline    metav1.Time                     `json:"deadline"`
	Description string                          `json:"description,omitempty"`
	Message     string                          `json:"message,omitempty"`
	WaitingFor  []duckv1alpha1.CheckWaiting     `json:"waitingFor,omitempty"`
	Policies    []approvalv1alpha1.PolicyStatus `json:"policies,omitempty"`
	Request     *approvalv1alpha1.CheckRequest  `json:"request,omitempty"`
}

// inboxPage is what the proxy answers at /-/inbox, or the denial it answers with.
type inboxPage struct {
	Items    []waitingCheck `json:"items"`
	Continue string         `json:"continue"`
	Reason   string         `json:"reason"`
	Detail   string         `json:"detail"`
}

const (
	// pageSize is the most that the proxy gives at once.
	pageSize = "200"
	// maxPages bounds how many pages of an inbox are read.
	maxPages = 1000
	// reasonColumn is the width of reasons in a table, in runes.
	reasonColumn = 60
)

// inbox is what waits for the caller's answer.
func (p *program) inbox(ctx context.Context, c *cluster, o *listOptions, namespace string, me approvalv1alpha1.Identity) (*source, error) {
	read, err := p.inboxReader(ctx, c, o, namespace, me)
	if err != nil {
		return nil, err
	}
	return &source{
		header: []string{"NAMESPACE", "NAME", "OBJECT", "REQUESTER", "USE", "DEADLINE", "REASON"},
		wide:   []string{"REQUEST", "SUBJECT", "RUN", "PERSON", "WAITING"},
		empty:  "Nothing waits for your answer.",
		read: func(ctx context.Context) ([]item, error) {
			checks, err := read(ctx)
			if err != nil {
				return nil, err
			}
			slices.SortStableFunc(checks, nearestDeadline)
			items := make([]item, 0, len(checks))
			for i := range checks {
				items = append(items, p.inboxItem(&checks[i]))
			}
			return items, nil
		},
	}, nil
}

func nearestDeadline(a, b waitingCheck) int {
	return cmp.Or(a.Deadline.Compare(b.Deadline.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

type inboxReader func(context.Context) ([]waitingCheck, error)

// inboxReader asks the proxy, which sees all namespaces, and where there is none the API server.
func (p *program) inboxReader(ctx context.Context, c *cluster, o *listOptions, namespace string, me approvalv1alpha1.Identity) (inboxReader, error) {
	fromServer := func(ctx context.Context) ([]waitingCheck, error) { return c.inbox(ctx, namespace, me) }
	if p.impersonates() {
		// The proxy would answer for the kubeconfig's own user.
		return fromServer, nil
	}
	x, err := p.proxy(ctx, c, o.proxy)
	if errors.Is(err, errNoProxy) {
		return fromServer, nil
	}
	if err != nil {
		return nil, err
	}
	keep := metav1.NamespaceAll
	if *p.flags.Namespace != "" || o.at.in != "" {
		keep = namespace
	}
	return func(ctx context.Context) ([]waitingCheck, error) {
		checks, err := x.inbox(ctx)
		if errors.Is(err, errNoToken) {
			p.tell("%s", "warning: the proxy takes only tokens, and your kubeconfig has none; looking"+inNamespace(namespace)+" on the API server")
			return fromServer(ctx)
		}
		return slices.DeleteFunc(checks, func(check waitingCheck) bool { return keep != metav1.NamespaceAll && check.Namespace != keep }), err
	}, nil
}

// inbox reads all pages.
func (x *proxy) inbox(ctx context.Context) ([]waitingCheck, error) {
	var all []waitingCheck
	query := url.Values{"limit": {pageSize}}
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
func (c *cluster) inbox(ctx context.Context, namespace string, me approvalv1alpha1.Identity) ([]waitingCheck, error) {
	checks, err := c.approvals(ctx, namespace)
	if err != nil {
		return nil, err
	}
	a := &answerer{me: me, o: &answerOptions{decision: approvalv1alpha1.DecisionApprove}}
	var mine []waitingCheck
	for _, check := range checks {
		if a.cannot(check) == "" {
			mine = append(mine, waiting(check.approval))
		}
	}
	return mine, nil
}

func waiting(a *approvalv1alpha1.ApprovalRequest) waitingCheck {
	return waitingCheck{
		APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: kindApprovalRequest,
		Namespace: a.Namespace, Name: a.Name, UID: a.UID, Deadline: metav1.NewTime(deadline(a)),
		Description: a.Spec.Description, Message: a.Status.Message, WaitingFor: a.Status.WaitingFor,
		Policies: a.Status.Policies, Request: a.Spec.Request,
	}
}

// deadline is when the check is given up unanswered.
func deadline(a *approvalv1alpha1.ApprovalRequest) time.Time {
	started := a.CreationTimestamp.Time
	if a.Status.StartedAt != nil {
		started = a.Status.StartedAt.Time
	}
	return quorum.Deadline(&a.Spec, started)
}

func (p *program) inboxItem(check *waitingCheck) item {
	q := check.Request
	if q == nil {
		q = &approvalv1alpha1.CheckRequest{}
	}
	return item{
		id: string(check.UID),
		row: []string{
			showName(check.Namespace), showName(check.Name), showName(q.Object.Name), showIdentity(&q.RequestedBy), useText(q.Use),
			remaining(check.Deadline.Time, p.clock.Now()), plaintext.Quote(q.Reason, reasonColumn),
		},
		wide: []string{
			showName(q.Ref.Namespace + "/" + q.Ref.Name), shortSubject(&q.Subject), runText(outermost(q)),
			showName(q.Person), orElse(waitingText(check.WaitingFor), none),
		},
		object: named{strings.ToLower(check.Kind) + "." + approvalv1alpha1.GroupVersion.Group + "/" + check.Name, check},
		facts:  factsOfCheck(check),
	}
}

// outermost is the run itself, the last of the way up from the pod.
func outermost(q *approvalv1alpha1.CheckRequest) *approvalv1alpha1.ObjectReference {
	if len(q.Context) == 0 {
		return nil
	}
	return &q.Context[len(q.Context)-1].Resource
}

func remaining(deadline, now time.Time) string {
	if !deadline.After(now) {
		return "over"
	}
	return duration.HumanDuration(deadline.Sub(now))
}
