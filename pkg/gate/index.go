package gate

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// objectKey is a protected object by group, kind and name: rules do not look at versions.
type objectKey struct{ group, kind, namespace, name string }

// ruleSet is the current rules of one object, with their references made once.
type ruleSet struct {
	rules []decision.Rule
	refs  []decision.RuleRef
}

// index is what decisions read. Readers take no lock; writers are the mirrors, one goroutine a kind.
type index struct {
	connectors *cowMap[types.NamespacedName, *Connector]
	rules      *cowMap[objectKey, *ruleSet]
	requests   *cowMap[fingerprint.Key, []*decision.Request]
	accounts   *cowMap[types.NamespacedName, types.UID]
	// people holds the UID under which a user last asked.
	people *cowMap[string, string]

	// Where a rule or request stands, to find it again when it changes or goes. Writers only.
	mu        sync.Mutex
	ruleAt    map[types.NamespacedName]objectKey
	requestAt map[types.NamespacedName]fingerprint.Key
}

func newIndex() *index {
	return &index{
		connectors: newCowMap[types.NamespacedName, *Connector](),
		rules:      newCowMap[objectKey, *ruleSet](),
		requests:   newCowMap[fingerprint.Key, []*decision.Request](),
		accounts:   newCowMap[types.NamespacedName, types.UID](),
		people:     newCowMap[string, string](),
		ruleAt:     map[types.NamespacedName]objectKey{},
		requestAt:  map[types.NamespacedName]fingerprint.Key{},
	}
}

func (x *index) setConnector(u *unstructured.Unstructured) {
	x.connectors.Set(nameOf(u), connectorFrom(u))
}

func (x *index) setAccount(u *unstructured.Unstructured) { x.accounts.Set(nameOf(u), u.GetUID()) }

// setRule takes up a rule. One that cannot be read applies to every operation of its object, and denies.
func (x *index) setRule(u *unstructured.Unstructured) {
	at, rule := ruleFrom(u)
	x.mu.Lock()
	old, known := x.ruleAt[nameOf(u)]
	x.ruleAt[nameOf(u)] = at
	x.mu.Unlock()
	if known && old != at {
		x.dropRule(old, rule.Name)
	}
	x.rules.Update(at, func(set *ruleSet) (*ruleSet, bool) { return set.with(rule), true })
}

func (x *index) forgetRule(name types.NamespacedName, _ types.UID) {
	x.mu.Lock()
	at, known := x.ruleAt[name]
	delete(x.ruleAt, name)
	x.mu.Unlock()
	if known {
		x.dropRule(at, name.Name)
	}
}

func (x *index) dropRule(at objectKey, name string) {
	x.rules.Update(at, func(set *ruleSet) (*ruleSet, bool) {
		next := set.without(name)
		return next, len(next.rules) > 0
	})
}

func ruleFrom(u *unstructured.Unstructured) (objectKey, decision.Rule) {
	var typed approvalv1alpha1.ResourceCheckRule
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &typed)
	if err != nil {
		return ruleObject(u), decision.Rule{
			RuleRef:  decision.RuleRef{Name: u.GetName(), UID: u.GetUID(), Generation: u.GetGeneration()},
			When:     operation.When{Invalid: true},
			NotReady: "the rule cannot be read; its owner must write it anew",
		}
	}
	return ruleObject(u), decision.FromRule(&typed)
}

// ruleObject is what a rule guards: it lives in the rule's own namespace.
func ruleObject(u *unstructured.Unstructured) objectKey {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(u.Object, "spec", "objectRef", field)
		return value
	}
	kind := schema.FromAPIVersionAndKind(text("apiVersion"), text("kind"))
	return objectKey{group: kind.Group, kind: kind.Kind, namespace: u.GetNamespace(), name: text("name")}
}

func (s *ruleSet) with(rule decision.Rule) *ruleSet {
	next := s.without(rule.Name)
	at, _ := slices.BinarySearchFunc(next.rules, rule.Name, func(r decision.Rule, name string) int {
		return strings.Compare(r.Name, name)
	})
	next.rules = slices.Insert(next.rules, at, rule)
	next.refs = decision.Refs(next.rules)
	return next
}

func (s *ruleSet) without(name string) *ruleSet {
	next := &ruleSet{}
	if s == nil {
		return next
	}
	for _, rule := range s.rules {
		if rule.Name != name {
			next.rules = append(next.rules, rule)
		}
	}
	next.refs = decision.Refs(next.rules)
	return next
}

// setRequest takes up a request. One that cannot be read answers nothing.
func (x *index) setRequest(u *unstructured.Unstructured) {
	name := nameOf(u)
	var typed approvalv1alpha1.ResourceCheckRequest
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &typed)
	var request *decision.Request
	if err == nil {
		request, err = decision.FromRequest(&typed)
	}
	if err != nil {
		x.forgetRequest(name, u.GetUID())
		return
	}
	x.setPerson(typed.Spec.Context.Subject)
	x.mu.Lock()
	old, known := x.requestAt[name]
	x.requestAt[name] = request.Key
	x.mu.Unlock()
	if known && old != request.Key {
		x.dropRequest(old, name)
	}
	x.requests.Update(request.Key, func(all []*decision.Request) ([]*decision.Request, bool) {
		return newestFirst(append(othersThan(name, all), request)), true
	})
}

func (x *index) setPerson(subject *approvalv1alpha1.Subject) {
	if subject.Kind != approvalv1alpha1.SubjectUser || subject.UID == "" {
		return
	}
	if uid, known := x.people.Get(subject.Name); !known || uid != subject.UID {
		x.people.Set(subject.Name, subject.UID)
	}
}

// PersonUID is the UID under which a user last asked for anything; empty if no issuer maps one or he never asked. It is
// for looking at somebody's requests without his token, never for letting him in.
func (x *index) PersonUID(username string) string {
	uid, _ := x.people.Get(username)
	return uid
}

func (x *index) forgetRequest(name types.NamespacedName, _ types.UID) {
	x.mu.Lock()
	at, known := x.requestAt[name]
	delete(x.requestAt, name)
	x.mu.Unlock()
	if known {
		x.dropRequest(at, name)
	}
}

func (x *index) dropRequest(at fingerprint.Key, name types.NamespacedName) {
	x.requests.Update(at, func(all []*decision.Request) ([]*decision.Request, bool) {
		rest := othersThan(name, all)
		return rest, len(rest) > 0
	})
}

// othersThan copies, because readers hold the old slice.
func othersThan(name types.NamespacedName, all []*decision.Request) []*decision.Request {
	rest := make([]*decision.Request, 0, len(all)+1)
	for _, r := range all {
		if r.Name != name.Name || r.Namespace != name.Namespace {
			rest = append(rest, r)
		}
	}
	return rest
}

func newestFirst(all []*decision.Request) []*decision.Request {
	slices.SortStableFunc(all, func(a, b *decision.Request) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return cmp.Compare(b.UID, a.UID)
	})
	return all
}

// found returns the requests under any of the keys, newest first. One key, as pods have, needs no copy.
func (x *index) found(keys []fingerprint.Key) []*decision.Request {
	var all []*decision.Request
	for _, key := range keys {
		some, ok := x.requests.Get(key)
		switch {
		case !ok:
		case all == nil:
			all = some
		default:
			all = newestFirst(slices.Concat(all, some))
		}
	}
	return all
}

// connectorKey is the object key of a connector.
func connectorKey(namespace, name string) objectKey {
	return objectKey{
		group: connectorsv1alpha1.GroupVersion.Group, kind: connectorsv1alpha1.KindConnector,
		namespace: namespace, name: name,
	}
}
