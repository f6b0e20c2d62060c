package proxy

import (
	"fmt"
	"net/url"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/quorum"
)

// Inbox answers GET /-/inbox: the pending checks of all namespaces that the caller may answer and has not, nearest
// deadline first. Texts in it are those of requesters: whoever prints them escapes them.
type Inbox struct {
	Items []InboxItem `json:"items"`
	// Continue is the value of the query parameter continue for the next page; empty on the last one.
	Continue string `json:"continue,omitempty"`
}

// InboxItem is one check. It tells the whole question, because its reader may not read the requester's namespace.
type InboxItem struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
	// Deadline is when the check is given up unanswered.
	Deadline    metav1.Time                     `json:"deadline"`
	Description string                          `json:"description,omitempty"`
	Message     string                          `json:"message,omitempty"`
	WaitingFor  []duckv1alpha1.CheckWaiting     `json:"waitingFor,omitempty"`
	Policies    []approvalv1alpha1.PolicyStatus `json:"policies,omitempty"`
	Request     *approvalv1alpha1.CheckRequest  `json:"request,omitempty"`
}

// Bounds of the query parameter limit.
const (
	usualPage = 50
	maxPage   = 200
)

func (c *call) inbox() {
	if no := c.alive(); no != nil {
		c.deny(*no)
		return
	}
	after, limit, no := c.page()
	if no != nil {
		c.deny(*no)
		return
	}
	checks, more := c.gate.Inbox(c.identity, after, limit)
	page := Inbox{Items: make([]InboxItem, 0, len(checks))}
	for _, check := range checks {
		page.Items = append(page.Items, inboxItem(check))
	}
	if more && len(checks) > 0 {
		page.Continue = string(checks[len(checks)-1].UID)
	}
	c.reply(page)
}

func (c *call) page() (after types.UID, limit int, no *refusal) {
	values, err := url.ParseQuery(c.route.RawQuery)
	if err != nil {
		no := invalid("the query cannot be read; percent-encode its values")
		return "", 0, &no
	}
	limit = usualPage
	if text := values.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			no := invalid(fmt.Sprintf("the limit is no number from 1 to %d; leave it out or correct it", maxPage))
			return "", 0, &no
		}
	}
	return types.UID(values.Get("continue")), limit, nil
}

func inboxItem(check *approvalv1alpha1.ApprovalRequest) InboxItem {
	started := check.CreationTimestamp
	if check.Status.StartedAt != nil {
		started = *check.Status.StartedAt
	}
	return InboxItem{
		APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "ApprovalRequest",
		Namespace: check.Namespace, Name: check.Name, UID: check.UID,
		Deadline:    metav1.NewTime(quorum.Deadline(&check.Spec, started.Time)),
		Description: check.Spec.Description, Message: check.Status.Message,
		WaitingFor: check.Status.WaitingFor, Policies: check.Status.Policies, Request: check.Spec.Request,
	}
}
