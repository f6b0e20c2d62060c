package gate

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/quorum"
	"github.com/AlaudaDevops/countersign/pkg/token"
)

// inbox holds the human checks that wait for an answer, so that an approver finds his without a right to list.
type inbox struct {
	pending *cowMap[types.NamespacedName, *approvalv1alpha1.ApprovalRequest]
	// askers are those who asked for the same, by the UID of the request that asks.
	askers *cowMap[types.UID, []string]
}

func newInbox() *inbox {
	return &inbox{
		pending: newCowMap[types.NamespacedName, *approvalv1alpha1.ApprovalRequest](),
		askers:  newCowMap[types.UID, []string](),
	}
}

func (b *inbox) set(u object) {
	var check approvalv1alpha1.ApprovalRequest
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &check)
	waiting := check.Status.State == "" || check.Status.State == duckv1alpha1.CheckPending
	if err != nil || !waiting || check.Spec.Request == nil {
		b.pending.Delete(nameOf(u))
		return
	}
	check.ManagedFields = nil
	b.pending.Set(nameOf(u), &check)
}

func (b *inbox) forget(name types.NamespacedName, _ types.UID) { b.pending.Delete(name) }

func (b *inbox) setAskers(u object) {
	askers, _, _ := unstructured.NestedStringSlice(u.Object, "status", "askers")
	if len(askers) > 0 {
		b.askers.Set(u.GetUID(), askers)
	}
}

func (b *inbox) forgetAskers(uid types.UID) { b.askers.Delete(uid) }

// Inbox returns the pending checks, of all namespaces, that the caller may answer and has not, nearest deadline
// first; at most limit of them, from the first one behind after (a UID that an earlier call returned last, or
// empty). more tells that there are further ones.
func (g *Gate) Inbox(who *token.Identity, after types.UID, limit int) (items []*approvalv1alpha1.ApprovalRequest, more bool) {
	me := approvalv1alpha1.Identity{Username: who.Username, UID: who.UID, Groups: who.Groups}
	if credential := who.Extra[approvalv1alpha1.ExtraCredentialID]; len(credential) > 0 {
		me.Extra = map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: credential}
	}
	var all []*approvalv1alpha1.ApprovalRequest
	g.inbox.pending.Each(func(_ types.NamespacedName, check *approvalv1alpha1.ApprovalRequest) {
		askers, _ := g.inbox.askers.Get(check.Spec.Request.Ref.UID)
		if !answeredBy(check, who.Username) && quorum.Eligible(&check.Spec, askers, me) == nil {
			all = append(all, check)
		}
	})
	slices.SortFunc(all, func(a, b *approvalv1alpha1.ApprovalRequest) int {
		if c := deadline(a).Compare(deadline(b)); c != 0 {
			return c
		}
		return cmp.Compare(a.UID, b.UID)
	})
	at := slices.IndexFunc(all, func(check *approvalv1alpha1.ApprovalRequest) bool { return check.UID == after }) + 1
	end := min(len(all), at+limit)
	return all[at:end], end < len(all)
}

func answeredBy(check *approvalv1alpha1.ApprovalRequest, username string) bool {
	return slices.ContainsFunc(check.Status.DecidedBy, func(d duckv1alpha1.CheckDecision) bool { return d.Username == username })
}

func deadline(check *approvalv1alpha1.ApprovalRequest) time.Time {
	started := check.CreationTimestamp.Time
	if check.Status.StartedAt != nil {
		started = check.Status.StartedAt.Time
	}
	return quorum.Deadline(&check.Spec, started)
}
