package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/config/policies"
)

// listPage is how many objects are listed at once.
const listPage = 500

// candidate is an object that may get a creator.
type candidate struct {
	kind            *apimeta.RESTMapping
	namespace, name string
	// uid is empty if it is not known which object of the name is meant; resourceVersion is empty if it was not read.
	uid             types.UID
	resourceVersion string
	created         time.Time
}

// assignment is a creator for an object.
type assignment struct {
	candidate
	user string
}

func (a *candidate) text() string {
	text := resourceText(a.kind) + "/" + a.name
	if a.namespace != "" {
		text += " in " + a.namespace
	}
	return show(text)
}

// resourceText is how kubectl names a kind.
func resourceText(kind *apimeta.RESTMapping) string { return kind.Resource.GroupResource().String() }

// plan finds the objects and their creators.
func (m *migrator) plan(ctx context.Context, args []string) error {
	switch {
	case len(m.o.auditLogs) > 0:
		return m.planFromLogs(ctx)
	case m.o.assign != "":
		return m.planFromList()
	}
	return m.planByHand(args)
}

// planByHand takes the objects of the command line.
func (m *migrator) planByHand(args []string) error {
	namespace, err := m.p.namespace()
	if err != nil {
		return err
	}
	if why := badUser(m.o.to); why != "" {
		return usage("--to: %s", why)
	}
	for _, word := range args {
		kind, name, ok := strings.Cut(word, "/")
		if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
			return usage("%s is no KIND/NAME: write for example deployment/shop", words(word))
		}
		mapping, err := m.kind(kind)
		if err != nil {
			return err
		}
		found := candidate{kind: mapping, name: name}
		if isNamespaced(mapping) {
			found.namespace = namespace
		}
		m.add(assignment{candidate: found, user: m.o.to})
	}
	return nil
}

// planFromLogs lists what has no creator, and looks for its creation in the logs.
func (m *migrator) planFromLogs(ctx context.Context) error {
	kinds, err := m.selectedKinds(ctx)
	if err != nil {
		return err
	}
	evidence := newEvidence()
	for _, kind := range kinds {
		if err := m.listWithout(ctx, kind, evidence.want); err != nil {
			return err
		}
	}
	if err := m.readLogs(ctx, evidence); err != nil {
		return err
	}
	for i, found := range evidence.found {
		switch {
		case found.user == "":
			m.tally.count(outcomeNoEvidence, "")
		case found.torn:
			m.tally.count(outcomeNoEvidence, "")
			m.progress.tell("warning: %s", "the logs name more than one creator of "+evidence.wanted[i].text()+", whose UID they do not hold: it gets none")
		default:
			m.add(assignment{candidate: evidence.wanted[i], user: found.user})
		}
	}
	return nil
}

// add puts an assignment on the list, unless an earlier run has dealt with the object.
func (m *migrator) add(a assignment) {
	if m.journal.knows(&a.candidate) {
		m.tally.count(outcomeBefore, "")
		return
	}
	m.todo = append(m.todo, a)
}

// kind looks a kind up by any of its names, once.
func (m *migrator) kind(word string) (*apimeta.RESTMapping, error) {
	word = strings.ToLower(word)
	if known, ok := m.kinds[word]; ok {
		return known, nil
	}
	gvk, err := kindFor(m.c.RESTMapper(), word)
	if err != nil {
		return nil, err
	}
	mapping, err := m.c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err == nil {
		m.kinds[word] = mapping
	}
	return mapping, err
}

func isNamespaced(kind *apimeta.RESTMapping) bool {
	return kind.Scope.Name() == apimeta.RESTScopeNameNamespace
}

// selectedKinds are those of --kinds, or those of which the cluster records creators.
func (m *migrator) selectedKinds(ctx context.Context) ([]*apimeta.RESTMapping, error) {
	namespace, err := m.p.namespace()
	if err != nil {
		return nil, err
	}
	if m.namespace = namespace; m.o.all {
		m.namespace = metav1.NamespaceAll
	}
	var kinds []*apimeta.RESTMapping
	for _, word := range m.o.kinds {
		kind, err := m.kind(word)
		if err != nil {
			return nil, err
		}
		if !isNamespaced(kind) && !m.o.all {
			return nil, usage("--kinds: %s belongs to no namespace; add --all-namespaces", words(word))
		}
		if !slices.ContainsFunc(kinds, func(other *apimeta.RESTMapping) bool { return other.Resource == kind.Resource }) {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) > 0 {
		return kinds, nil
	}
	kinds, err = m.p.recordedKinds(ctx, m.c, m.o.all)
	if discovery.IsGroupDiscoveryFailedError(err) {
		m.progress.tell("%s", "warning: not all kinds are known: "+sentence(err))
		err = nil
	}
	if err == nil && len(kinds) == 0 {
		err = fail(ExitError, "the cluster records creators of no kind that you may look for here: add --all-namespaces, or name kinds with --kinds")
	}
	return kinds, err
}

// recordedKinds are all kinds that the policies of the cluster select, those without a namespace only with all. Kinds come
// with an error of discovery too, if it knows some.
func (p *program) recordedKinds(ctx context.Context, c *cluster, all bool) ([]*apimeta.RESTMapping, error) {
	selection, err := c.recordSelection(ctx)
	if err != nil {
		return nil, err
	}
	lists, incomplete := p.resources(p)
	var kinds []*apimeta.RESTMapping
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if migratable(r) && (r.Namespaced || all) && policies.SelectsRecord(selection, gv.WithResource(r.Name).GroupResource()) {
				kinds = append(kinds, mappingOf(gv, r))
			}
		}
	}
	return kinds, incomplete
}

func migratable(r *metav1.APIResource) bool {
	return !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "patch")
}

func mappingOf(gv schema.GroupVersion, r *metav1.APIResource) *apimeta.RESTMapping {
	scope := apimeta.RESTScopeRoot
	if r.Namespaced {
		scope = apimeta.RESTScopeNamespace
	}
	return &apimeta.RESTMapping{Resource: gv.WithResource(r.Name), GroupVersionKind: gv.WithKind(r.Kind), Scope: scope}
}

// recordSelection is which kinds have records: as the cluster's policies say or the webhooks that stand in for them, or
// where nothing says, as shipped.
func (c *cluster) recordSelection(ctx context.Context) (*admissionregistrationv1.MatchResources, error) {
	for _, live := range []client.Object{
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
	} {
		err := c.Get(ctx, keyOf("", policies.CreatorRecord), live)
		if err == nil {
			return policies.Selection(live), nil
		}
		if !unreadable(err) {
			return nil, err
		}
	}
	return policies.Selection(policies.Current()[policies.Key{Kind: policies.KindMutatingBinding, Name: policies.CreatorRecord}]), nil
}

// listWithout hands on every object of a kind that has no creator, and counts the others.
func (m *migrator) listWithout(ctx context.Context, kind *apimeta.RESTMapping, each func(candidate)) error {
	namespace := m.namespace
	if !isNamespaced(kind) {
		namespace = ""
	}
	next := ""
	for {
		m.progress.note("looking for %s", resourceText(kind))
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind.GroupVersionKind.GroupVersion().WithKind(kind.GroupVersionKind.Kind + "List"))
		if err := m.limit.Wait(ctx); err != nil {
			return cause(ctx, err)
		}
		err := m.c.List(ctx, page, client.InNamespace(namespace), client.Limit(listPage), client.Continue(next))
		if goOn := continuation(err); goOn != "" {
			next = goOn
			continue
		}
		switch {
		case apimeta.IsNoMatchError(err), apierrors.IsNotFound(err):
			return nil
		case apierrors.IsForbidden(err):
			return fail(ExitDenied, "%s: leave the kind out with --kinds", sentence(err))
		case err != nil:
			return err
		}
		for i := range page.Items {
			m.sort(kind, &page.Items[i], each)
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

// continuation is where a list goes on whose first pages have become too old. That it is not of one moment any more does
// no harm: every object is looked at for itself.
func continuation(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

func (m *migrator) sort(kind *apimeta.RESTMapping, object *metav1.PartialObjectMetadata, each func(candidate)) {
	found := candidate{
		kind: kind, namespace: object.Namespace, name: object.Name, uid: object.UID,
		resourceVersion: object.ResourceVersion, created: object.CreationTimestamp.Time,
	}
	switch {
	case object.Annotations[approvalv1alpha1.AnnotationCreatedBy] == "":
		each(found)
	case m.journal.knows(&found):
		m.tally.count(outcomeBefore, "")
	default:
		m.tally.count(outcomeHad, "")
	}
}
