package request

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

func isRelease(ref *approvalv1alpha1.ObjectReference) bool {
	return ref != nil && ref.GroupKind() == releasev1alpha1.GroupKindRelease
}

// forRelease settles the subject of a request for a Release: whoever made it. That was the permission, so the subject
// needs no verb on the plan.
func (w *Webhook) forRelease(ctx context.Context, caller *admit.Caller, spec *approvalv1alpha1.ResourceCheckRequestSpec, namespace string) (*asker, error) {
	if err := w.mayDecide(ctx, caller); err != nil {
		return nil, err
	}
	release, err := w.namedRun(ctx, spec.Context.Resource, namespace)
	if err != nil {
		return nil, err
	}
	creator, proven := release.Creator(w.Since())
	if !proven {
		return nil, admit.Because(approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
			"nobody can be shown to have made %s, because its creator record is missing or not to be relied on: create the Release anew", release))
	}
	a := &asker{way: forRelease, caller: caller, run: release}
	if a.subject, err = w.subjectOf(ctx, creator); err != nil {
		return nil, err
	}
	return a, sameSubject(spec.Context.Subject, &a.subject)
}

// mayDecide is asked without a namespace, so no role in the Release's namespace conveys it.
func (w *Webhook) mayDecide(ctx context.Context, caller *admit.Caller) error {
	allowed, _, err := w.Access.Allowed(ctx, caller.UserInfo, authz.ResourceAttributes{
		Group: approvalv1alpha1.AuthorityGroup, Resource: approvalv1alpha1.ResourceChecks, Verb: approvalv1alpha1.VerbDecide,
	})
	if err != nil {
		return admit.Unavailable("it cannot be told now whether you may ask for Releases: try again in a moment", err)
	}
	if !allowed {
		return admit.Because(approvalv1alpha1.ReasonNotPermitted,
			"only Countersign's controller asks for Releases, as soon as there is one: create a Release and wait for its answer")
	}
	return nil
}

// subjectOf is a user by name, as an API server knows him.
func (w *Webhook) subjectOf(ctx context.Context, username string) (approvalv1alpha1.Subject, error) {
	namespace, name, ok := attribution.ServiceAccount(username)
	if !ok {
		return approvalv1alpha1.Subject{APIGroup: rbacv1.GroupName, Kind: approvalv1alpha1.SubjectUser, Name: username}, nil
	}
	account := types.NamespacedName{Namespace: namespace, Name: name}
	uid, err := w.accountUID(ctx, account)
	return serviceAccount(account, uid), err
}

// plan is what a Release asks for: the plan that it names, and nothing else.
func (w *Webhook) plan(ctx context.Context, a *asker, spec *approvalv1alpha1.ResourceCheckRequestSpec, namespace string) (*target, error) {
	t := &target{ref: spec.ObjectRef}
	if t.ref.Namespace == "" {
		t.ref.Namespace = namespace
	}
	gvk := schema.FromAPIVersionAndKind(t.ref.APIVersion, t.ref.Kind)
	if gvk.GroupKind() != releasev1alpha1.GroupKindReleasePlan || t.ref.Namespace != namespace || t.ref.Name != a.run.Release.Plan {
		return nil, admit.Invalid("spec.objectRef", fmt.Sprintf("%s is released by the ReleasePlan %s of its namespace: ask for that one",
			a.run, plaintext.Quote(a.run.Release.Plan, maxShown)))
	}
	return t, w.find(ctx, a, t, gvk)
}

// settleRelease takes the Release as the context.
func settleRelease(a *asker, sent *approvalv1alpha1.RequestContext, s *settled) error {
	resource := a.run.Reference()
	s.context.Resource = &resource
	return first(refuseEnded(a.run, a.run), samePod(sent.Pod, &approvalv1alpha1.PodReference{}), sameToken(sent.Token, ""))
}
