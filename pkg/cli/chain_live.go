package cli

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/chain"
)

// chainPage is how many objects are listed at once.
const chainPage = 500

// Rate of the requests by which children of all kinds are listed, in requests per second.
const (
	childrenRate  = 50
	childrenBurst = 100
)

// fieldAnswered selects answers by the check that they answer.
const fieldAnswered = "spec.requestRef.uid"

// chainLive reads from the API server what belongs to a chain.
type chainLive struct {
	c    *cluster
	tree bool
	// asked are the checks whose answers were listed.
	asked map[types.UID]bool
	// requests are those of each namespace that was listed, less what the chain took up.
	requests map[string][]*approvalv1alpha1.ResourceCheckRequest
	// children are the objects with owners in the target's namespace; nil until they were listed.
	children []*chain.Object
	listed   bool
}

// target reads the object that has the name now.
func (l *chainLive) target(ctx context.Context, word, name, namespace string) (*chain.Object, error) {
	gvk, err := kindFor(l.c.RESTMapper(), word)
	if err != nil {
		return nil, err
	}
	return l.read(ctx, &chain.Object{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: namespace, Name: name})
}

// read reads an object's metadata. Of a check it reads all, for its state.
func (l *chainLive) read(ctx context.Context, of *chain.Object) (*chain.Object, error) {
	mapping, err := l.c.RESTMapper().RESTMapping(of.GroupKind(), versions(of)...)
	if err != nil {
		return nil, err
	}
	key := keyOf(of.Namespace, of.Name)
	if mapping.Scope.Name() != apimeta.RESTScopeNameNamespace {
		key.Namespace = ""
	}
	o, err := l.get(ctx, mapping.GroupVersionKind, key, of.Request != nil)
	if err != nil {
		return nil, err
	}
	o.Resource = mapping.Resource.Resource
	return o, nil
}

// versions prefers the version in which the object was named; it may not be served any more.
func versions(o *chain.Object) []string {
	if o.Version == "" {
		return nil
	}
	return []string{o.Version, ""}
}

func (l *chainLive) get(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName, whole bool) (*chain.Object, error) {
	if !whole {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(gvk)
		if err := l.c.Get(ctx, key, meta); err != nil {
			return nil, err
		}
		return chain.ObjectOf(gvk, meta), nil
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	if err := l.c.Get(ctx, key, u); err != nil {
		return nil, err
	}
	raw, err := u.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return chain.Read(raw), nil
}

// collect reads what the chain lacks, once.
func (l *chainLive) collect(ctx context.Context, facts *chain.Facts) error {
	for _, of := range facts.Lacking() {
		if err := l.complete(ctx, facts, &of); err != nil {
			return err
		}
	}
	if l.tree {
		if err := l.addChildren(ctx, facts); err != nil {
			return err
		}
	}
	for _, namespace := range facts.Namespaces() {
		if err := l.addRequests(ctx, facts, namespace); err != nil {
			return err
		}
	}
	for _, check := range facts.Answerable() {
		if err := l.addAnswers(ctx, facts, &check); err != nil {
			return err
		}
	}
	return nil
}

// complete reads an object of which a reference is known.
func (l *chainLive) complete(ctx context.Context, facts *chain.Facts, of *chain.Object) error {
	uid, err := l.completeKind(ctx, facts, of)
	switch {
	case apierrors.IsNotFound(err):
		facts.Gone(of.UID, "it is gone")
	case apierrors.IsForbidden(err):
		facts.Gone(of.UID, "you may not read it")
	case apimeta.IsNoMatchError(err):
		facts.Gone(of.UID, "the cluster does not know its kind")
	case err != nil:
		return err
	case uid != of.UID && of.UID != "":
		facts.Gone(of.UID, "it is gone, and another object has its name")
	}
	return nil
}

func (l *chainLive) completeKind(ctx context.Context, facts *chain.Facts, of *chain.Object) (types.UID, error) {
	if of.Group == approvalv1alpha1.GroupVersion.Group && of.Kind == "ResourceCheckRequest" {
		r, err := l.c.request(ctx, of.Namespace, of.Name)
		if err != nil {
			return "", err
		}
		if r.UID == of.UID {
			facts.AddRequest(r, chain.Live)
		}
		return r.UID, nil
	}
	if of.Group == approvalv1alpha1.GroupVersion.Group && of.Kind == "ApprovalResponse" {
		a := &approvalv1alpha1.ApprovalResponse{}
		if err := l.c.Get(ctx, keyOf(of.Namespace, of.Name), a); err != nil {
			return "", err
		}
		if a.UID == of.UID {
			facts.AddAnswer(a, chain.Live)
		}
		return a.UID, nil
	}
	o, err := l.read(ctx, of)
	if err != nil {
		return "", err
	}
	if o.UID == of.UID {
		facts.AddObject(o, chain.Live)
	}
	return o.UID, nil
}

// addRequests takes up what was asked for the chain. Requests do not say who follows from them, so all of a namespace are
// listed once, and looked at again whenever the chain has grown.
func (l *chainLive) addRequests(ctx context.Context, facts *chain.Facts, namespace string) error {
	if _, listed := l.requests[namespace]; !listed {
		found, err := l.listRequests(ctx, namespace)
		l.requests[namespace] = found
		if err := l.orNote(facts, err, "requests in namespace "+namespace); err != nil {
			return err
		}
	}
	l.requests[namespace] = slices.DeleteFunc(l.requests[namespace], func(r *approvalv1alpha1.ResourceCheckRequest) bool {
		return facts.AddRequest(r, chain.Live)
	})
	return nil
}

func (l *chainLive) listRequests(ctx context.Context, namespace string) (found []*approvalv1alpha1.ResourceCheckRequest, err error) {
	list := &approvalv1alpha1.ResourceCheckRequestList{}
	err = l.pages(ctx, list, func() {
		for i := range list.Items {
			found = append(found, list.Items[i].DeepCopy())
		}
	}, client.InNamespace(namespace))
	return found, err
}

func (l *chainLive) addAnswers(ctx context.Context, facts *chain.Facts, check *chain.Object) error {
	if l.asked[check.UID] || check.Namespace == "" {
		return nil
	}
	l.asked[check.UID] = true
	list := &approvalv1alpha1.ApprovalResponseList{}
	err := l.pages(ctx, list, func() {
		for i := range list.Items {
			facts.AddAnswer(list.Items[i].DeepCopy(), chain.Live)
		}
	}, client.InNamespace(check.Namespace), client.MatchingFields{fieldAnswered: string(check.UID)})
	return l.orNote(facts, err, "answers in namespace "+check.Namespace)
}

// pages lists page by page, as the API server wants of long lists.
func (l *chainLive) pages(ctx context.Context, list client.ObjectList, page func(), options ...client.ListOption) error {
	return listPages(ctx, l.c, list, page, options...)
}

func listPages(ctx context.Context, from client.Reader, list client.ObjectList, page func(), options ...client.ListOption) error {
	for {
		more := append(slices.Clone(options), client.Limit(chainPage), client.Continue(list.GetContinue()))
		if err := from.List(ctx, list, more...); err != nil {
			return err
		}
		page()
		if list.GetContinue() == "" {
			return nil
		}
	}
}

// orNote tells what is missing of the chain because the caller may not read it.
func (l *chainLive) orNote(facts *chain.Facts, err error, what string) error {
	if err == nil || !unreadable(err) {
		return err
	}
	facts.Note("The %s cannot be read, and are missing here: %s.", what, sentence(err))
	return nil
}

// addChildren takes up what the target caused. Owner references lead upwards only, so all objects of the namespace that
// have one are looked at.
func (l *chainLive) addChildren(ctx context.Context, facts *chain.Facts) error {
	if !l.listed {
		l.listed = true
		if err := l.listChildren(ctx, facts); err != nil {
			return err
		}
	}
	for added := true; added; {
		added = false
		l.children = slices.DeleteFunc(l.children, func(o *chain.Object) bool {
			taken := facts.AddObject(o, chain.Live)
			added = added || taken
			return taken
		})
	}
	return nil
}

func (l *chainLive) listChildren(ctx context.Context, facts *chain.Facts) error {
	config := rest.CopyConfig(l.c.config)
	config.QPS, config.Burst = childrenRate, childrenBurst
	// Nobody chose the kinds that are deprecated: all are listed.
	config.WarningHandler, config.WarningHandlerWithContext = nil, rest.NoWarnings{}
	from, err := client.New(config, client.Options{Scheme: scheme(), Mapper: l.c.RESTMapper()})
	if err != nil {
		return err
	}
	known, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	kinds, err := discovery.ServerPreferredNamespacedResources(known)
	if err != nil {
		facts.Note("Not all kinds of the cluster are known now, so children may be missing: %s.", sentence(err))
	}
	namespaces := facts.Namespaces()
	for _, group := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "get"}}, kinds) {
		for _, resource := range group.APIResources {
			gv, err := schema.ParseGroupVersion(group.GroupVersion)
			if err != nil || resource.Kind == "Event" {
				continue
			}
			for _, namespace := range namespaces {
				if err := l.listOwned(ctx, facts, from, gv.WithKind(resource.Kind), resource.Name, namespace); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (l *chainLive) listOwned(ctx context.Context, facts *chain.Facts, from client.Reader, gvk schema.GroupVersionKind, resource, namespace string) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := listPages(ctx, from, list, func() {
		for i := range list.Items {
			o := chain.ObjectOf(gvk, &list.Items[i])
			if o.Owner != nil || o.CreatedFor != "" {
				o.Resource = resource
				l.children = append(l.children, o)
			}
		}
	}, client.InNamespace(namespace))
	if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
		facts.Note("The %s in namespace %s cannot be listed, so children may be missing.", resource, namespace)
		return nil
	}
	if err != nil {
		return fmt.Errorf("the %s in namespace %s cannot be listed: %w", resource, namespace, err)
	}
	return nil
}
