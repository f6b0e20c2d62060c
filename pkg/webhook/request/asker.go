package request

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// way is one of the ways to ask.
type way int

const (
	// forSelf is a person who asks for himself.
	forSelf way = iota
	// byPod is a service account with the token of a pod.
	byPod
	// withoutPod is a service account with a token that belongs to no pod.
	withoutPod
	// forRun is anybody who asks for a run: its creator, or a holder of the verb request-for.
	forRun
	// forRelease is our controller, which asks for each Release whether its plan lets it through.
	forRelease
)

// asker is who asks, and for whom.
type asker struct {
	way     way
	caller  *admit.Caller
	subject approvalv1alpha1.Subject
	// user is the subject as the API server sees it.
	user authz.UserInfo
	// run is the named run or Release, as it is now; set forRun and forRelease only.
	run *origin.Node
	// started tells that the caller is the run's proven creator.
	started bool
}

// isDriven tells that a program asks that would ask again and again. Who started the run may tell a program to.
func (a *asker) isDriven() bool {
	return a.way == byPod || a.way == forRelease || a.way == forRun && !a.caller.IsPerson() && !a.started
}

// asker settles the subject.
func (w *Webhook) asker(ctx context.Context, caller *admit.Caller, spec *approvalv1alpha1.ResourceCheckRequestSpec, namespace string) (*asker, error) {
	named := spec.Context.Resource != nil
	switch {
	case caller.IsAnonymous():
		return nil, admit.Forbidden("nobody is logged in: log in, and ask as somebody")
	case isRelease(spec.Context.Resource):
		return w.forRelease(ctx, caller, spec, namespace)
	case caller.Pod != nil:
		// Our custom task runs in a pod too, and asks for the runs of others. Who names a pod speaks of its own.
		if named && spec.Context.Pod == nil {
			if a, err := w.forRun(ctx, caller, spec, namespace); err == nil {
				return a, nil
			}
		}
		return newAsker(byPod, caller, spec)
	case named:
		return w.forRun(ctx, caller, spec, namespace)
	case caller.ServiceAccount != nil:
		return newAsker(withoutPod, caller, spec)
	}
	return newAsker(forSelf, caller, spec)
}

// newAsker is a caller who is the subject himself.
func newAsker(way way, caller *admit.Caller, spec *approvalv1alpha1.ResourceCheckRequestSpec) (*asker, error) {
	a := &asker{way: way, caller: caller, user: caller.UserInfo}
	if account := caller.ServiceAccount; account != nil {
		a.subject = serviceAccount(*account, types.UID(caller.UID))
	} else {
		a.subject = approvalv1alpha1.Subject{
			APIGroup: rbacv1.GroupName, Kind: approvalv1alpha1.SubjectUser, Name: caller.Username, UID: caller.UID,
		}
	}
	return a, sameSubject(spec.Context.Subject, &a.subject)
}

func serviceAccount(name types.NamespacedName, uid types.UID) approvalv1alpha1.Subject {
	return approvalv1alpha1.Subject{
		Kind: approvalv1alpha1.SubjectServiceAccount, Namespace: name.Namespace, Name: name.Name, UID: string(uid),
	}
}

// forRun settles the subject of a request for a run, and that the caller may ask for it.
func (w *Webhook) forRun(ctx context.Context, caller *admit.Caller, spec *approvalv1alpha1.ResourceCheckRequestSpec, namespace string) (*asker, error) {
	run, err := w.namedRun(ctx, spec.Context.Resource, namespace)
	if err != nil {
		return nil, err
	}
	account, err := accountOf(run, spec.Context.Subject)
	if err != nil {
		return nil, err
	}
	started := w.started(caller, run)
	if !started {
		if err := w.mayAskFor(ctx, caller, run, account); err != nil {
			return nil, err
		}
	}
	uid, err := w.accountUID(ctx, account)
	if err != nil {
		return nil, err
	}
	a := &asker{
		way: forRun, caller: caller, run: run, started: started,
		subject: serviceAccount(account, uid), user: admit.ServiceAccountUser(account, uid),
	}
	return a, sameSubject(spec.Context.Subject, &a.subject)
}

// namedRun reads the run that the request names.
func (w *Webhook) namedRun(ctx context.Context, ref *approvalv1alpha1.ObjectReference, namespace string) (*origin.Node, error) {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	if !w.Runs.IsRun(kind) {
		return nil, admit.Invalid("spec.context.resource", fmt.Sprintf("%s is no kind of run that approvals are reused for: name a run, or leave the resource out", kind))
	}
	if ref.Namespace != "" && ref.Namespace != namespace {
		return nil, admit.Invalid("spec.context.resource.namespace", "it must be the request's own namespace: create the request where the run is")
	}
	run, err := w.Origins.Get(ctx, kind, namespace, ref.Name)
	if errors.Is(err, origin.ErrNotFound) {
		return nil, admit.Invalid("spec.context.resource", fmt.Sprintf("there is no %s %s/%s: start the run before asking for it", ref.Kind, namespace, ref.Name))
	}
	if err != nil {
		return nil, admit.Unavailable("the run cannot be looked up now: try again in a moment", err)
	}
	return run, same("spec.context.resource.uid", string(ref.UID), string(run.UID))
}

// accountOf is the service account that is asked for: the run's own unless the request names another of the run's.
func accountOf(run *origin.Node, subject *approvalv1alpha1.Subject) (types.NamespacedName, error) {
	account := types.NamespacedName{Namespace: run.Namespace}
	if len(run.ServiceAccounts) == 0 {
		return account, admit.Invalid("spec.context.resource", fmt.Sprintf("it is not known which service account a %s uses, so nobody can ask for one", run.Kind))
	}
	account.Name = run.ServiceAccounts[0]
	if subject != nil && subject.Name != "" {
		account.Name = subject.Name
	}
	if !slices.Contains(run.ServiceAccounts, account.Name) {
		return account, admit.Invalid("spec.context.subject.name", fmt.Sprintf("%s does not use the service account %s: name one that it uses, or leave the subject out",
			run, plaintext.Quote(account.Name, maxShown)))
	}
	return account, nil
}

// started tells whether the caller is the run's creator, by a record that can be relied on.
func (w *Webhook) started(caller *admit.Caller, run *origin.Node) bool {
	creator, proven := run.Creator(w.Since())
	return proven && creator == caller.Username
}

// mayAskFor lets those ask who hold the verb request-for on the service account.
func (w *Webhook) mayAskFor(ctx context.Context, caller *admit.Caller, run *origin.Node, account types.NamespacedName) error {
	allowed, _, err := w.Access.Allowed(ctx, caller.UserInfo, authz.ResourceAttributes{
		Group: approvalv1alpha1.AuthorityGroup, Resource: approvalv1alpha1.ResourceServiceAccounts,
		Verb: approvalv1alpha1.VerbRequestFor, Namespace: account.Namespace, Name: account.Name,
	})
	if err != nil {
		return admit.Unavailable("it cannot be told now whether you may ask for this run: try again in a moment", err)
	}
	if !allowed {
		return admit.Because(approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf("only who created %s, or holds %q on %s.%s %s, may ask for it: let one of them ask",
			run, approvalv1alpha1.VerbRequestFor, approvalv1alpha1.ResourceServiceAccounts, approvalv1alpha1.AuthorityGroup, account))
	}
	return nil
}
