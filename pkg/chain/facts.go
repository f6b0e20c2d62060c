package chain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// Options say how Facts are judged.
type Options struct {
	// Epoch is since when creator records are believed; zero means that none is.
	Epoch time.Time
	// NoEpoch says in half a sentence why Epoch is zero.
	NoEpoch string
	// Tree wants what the target caused, too.
	Tree bool
	// Makes tells whether a user, by exact name, is a controller that makes such children for such owners.
	Makes func(child, owner schema.GroupKind, user string) bool
}

// role is why an object is in the chain.
type role int

const (
	// beside: it is named by the chain, and nothing follows from it.
	beside role = iota
	// below: the target caused it.
	below
	// above: it caused the target, or something that is in the chain.
	above
	target
)

// caused tells whether requests made for the object belong to the chain.
func (r role) caused() bool { return r != beside }

// entry is one object of the chain with what is known about it.
type entry struct {
	Object
	role role
	// source is where the object itself was read; unread if only a reference to it is known.
	source Source
	// gone says why it cannot be read.
	gone string
	// cut tells that the chain is full: nothing is kept of the object.
	cut bool
	// alive is a moment at which the object is known to have existed; zero if none is.
	alive   time.Time
	archive *hop
	request *approvalv1alpha1.ResourceCheckRequest
	answer  *approvalv1alpha1.ApprovalResponse
	events  []deed
	uses    []*useGroup
	more    int // uses beyond the groups
}

// hop is what archived evidence says of an object of a run.
type hop struct {
	createdBy string
	owner     types.UID
	proven    bool
}

// Source is where an object was read. What comes from a better source is not overwritten.
type Source int

// Sources, from the weakest.
const (
	unread Source = iota
	// Logged: in the audit log.
	Logged
	// Archived: in archived evidence.
	Archived
	// Live: from the API server.
	Live
)

// maxObjects bounds the chain: anybody can make objects that own each other.
const maxObjects = 5000

// Facts is what is known so far. Feed it until nothing grows, then ask for the Chain.
type Facts struct {
	Options
	target  *entry
	entries []*entry
	byUID   map[types.UID]*entry
	// names and kinds find the entries that an event without UID may be about, by its name or without.
	names, kinds map[nameKey][]*entry
	// log holds the events without UID that name objects of the chain.
	log map[nameKey]*nameLog
	// lives are the UIDs of other objects that had the target's name.
	lives map[types.UID]time.Time
	grew  bool
	notes []string
}

// nameKey is what the audit log calls an object; the name is empty for creations without one.
type nameKey struct{ group, resource, namespace, name string }

func (o *Object) key() nameKey { return nameKey{o.Group, o.Resource, o.Namespace, o.Name} }

func (o *Object) kind() nameKey { return nameKey{o.Group, o.Resource, o.Namespace, ""} }

// New returns Facts about one object. Without a UID, it is whatever had the name when it was Created.
func New(options Options, of *Object) *Facts {
	f := &Facts{
		Options: options, byUID: map[types.UID]*entry{}, names: map[nameKey][]*entry{}, kinds: map[nameKey][]*entry{},
		log: map[nameKey]*nameLog{}, lives: map[types.UID]time.Time{},
	}
	f.target = f.add(of, target)
	return f
}

// Grew tells whether objects came to the chain since it was asked last: then logs and archives must be read again,
// after Restart.
func (f *Facts) Grew() bool {
	grew := f.grew
	f.grew = false
	return grew
}

// Restart forgets what was seen in logs, before they are read again from the start.
func (f *Facts) Restart() {
	f.log = map[nameKey]*nameLog{}
	for _, e := range f.entries {
		e.events = nil
	}
}

// Note adds a sentence for people to the chain: what could not be read.
func (f *Facts) Note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(f.notes, note) {
		f.notes = append(f.notes, note)
	}
}

// add makes an entry, or gives the one that is there a stronger role.
func (f *Facts) add(o *Object, as role) *entry {
	e := f.byUID[o.UID]
	if e == nil || o.UID == "" {
		return f.addNew(o, as)
	}
	if as > e.role {
		e.role, f.grew = as, true
		f.follow(e)
	}
	return e
}

func (f *Facts) addNew(o *Object, as role) *entry {
	e := &entry{Object: *o, role: as}
	if len(f.entries) >= maxObjects {
		f.Note("The chain is cut off at %d objects.", maxObjects)
		e.cut = true
		return e
	}
	f.entries = append(f.entries, e)
	f.grew = true
	if o.UID != "" {
		f.byUID[o.UID] = e
	}
	f.index(e)
	return e
}

func (f *Facts) index(e *entry) {
	for _, key := range []nameKey{e.key(), e.kind()} {
		into := f.names
		if key.name == "" {
			into = f.kinds
		}
		if !slices.Contains(into[key], e) {
			into[key] = append(into[key], e)
		}
	}
}

// know fills in what was read of an object itself, and follows where it leads.
func (f *Facts) know(e *entry, o *Object, source Source) {
	if source < e.source || e.cut {
		return
	}
	if e.source == unread {
		f.grew = true
	}
	if o.Created.IsZero() {
		o.Created = e.Created
	}
	if o.Request != nil && o.Request.Name == "" {
		o.Request = better(e.Request, o.Request)
	}
	e.Object, e.source = *o, source
	f.index(e)
	f.follow(e)
}

func better(known, read *approvalv1alpha1.RequestReference) *approvalv1alpha1.RequestReference {
	if known != nil && known.UID == read.UID {
		return known
	}
	return read
}

// follow adds what an object of the chain was made for.
func (f *Facts) follow(e *entry) {
	if e.role == below || e.role == beside {
		return
	}
	if e.Owner != nil {
		f.add(&Object{
			Group: e.Owner.Group, Version: e.Owner.Version, Kind: e.Owner.Kind, Resource: ResourceOf(e.Owner.Kind),
			Namespace: cmp.Or(e.Owner.Namespace, e.Namespace), Name: e.Owner.Name, UID: e.Owner.UID,
		}, above).sawAlive(e.Created)
	}
	if e.Request != nil && e.Request.UID != "" {
		f.add(ours(kindRequest, e.Request.Namespace, e.Request.Name, e.Request.UID), above)
	}
}

// sawAlive keeps the earliest moment, which is nearest to the creation.
func (e *entry) sawAlive(at time.Time) {
	if !at.IsZero() && (e.alive.IsZero() || at.Before(e.alive)) {
		e.alive = at
	}
}

// Lacking are the objects of the chain of which only a reference is known; those that were said to be gone are left out.
func (f *Facts) Lacking() []Object {
	var lacking []Object
	for _, e := range f.entries {
		if e.source < Live && e.gone == "" && e.Name != "" && e.Kind != "" {
			lacking = append(lacking, e.Object)
		}
	}
	return lacking
}

// Gone says why an object cannot be read: it was deleted, or the caller may not.
func (f *Facts) Gone(uid types.UID, why string) {
	if e := f.byUID[uid]; e != nil && e.source < Live {
		e.gone = why
	}
}

// AddObject takes an object up if it belongs to the chain, and tells whether it does.
func (f *Facts) AddObject(o *Object, source Source) bool {
	e := f.byUID[o.UID]
	if e == nil && f.target.UID == "" && f.isTarget(o) {
		e = f.target
		f.byUID[o.UID] = e
	}
	if e == nil {
		as, wanted := f.wants(o)
		if !wanted {
			f.seeLife(o)
			return false
		}
		e = f.add(o, as)
	}
	f.know(e, o, source)
	return true
}

// isTarget is for a target of which only the name and the moment of its creation are known.
func (f *Facts) isTarget(o *Object) bool {
	return o.key() == f.target.key() && o.Created.Equal(f.target.Created)
}

// wants tells whether an object that nothing in the chain names belongs to it all the same.
func (f *Facts) wants(o *Object) (role, bool) {
	if o.Owner != nil && f.Tree {
		if owner := f.byUID[o.Owner.UID]; owner != nil && (owner.role == target || owner.role == below) {
			return below, true
		}
	}
	if o.CreatedFor != "" && f.Tree {
		if owner := f.byUID[o.CreatedFor]; owner != nil && (owner.role == target || owner.role == below) {
			return below, true
		}
	}
	if o.Request != nil {
		if request := f.byUID[o.Request.UID]; request != nil {
			return beside, true
		}
	}
	return beside, false
}

// seeLife remembers other objects of the target's name.
func (f *Facts) seeLife(o *Object) {
	const most = 100
	if o.UID != "" && o.key() == f.target.key() && o.UID != f.target.UID && len(f.lives) < most {
		f.lives[o.UID] = o.Created
	}
}

// AddRequest takes a request up if it was made for an object of the chain, or is one, and tells whether it was.
func (f *Facts) AddRequest(r *approvalv1alpha1.ResourceCheckRequest, source Source) bool {
	e := f.byUID[r.UID]
	if e == nil && !f.madeFor(r) {
		return false
	}
	o := ObjectOf(approvalv1alpha1.GroupVersion.WithKind(kindRequest), r)
	if e == nil {
		e = f.add(o, beside)
	}
	if source >= e.source || e.request == nil {
		e.request = r
	}
	f.know(e, o, source)
	f.followRequest(e)
	return true
}

func (f *Facts) madeFor(r *approvalv1alpha1.ResourceCheckRequest) bool {
	c := &r.Spec.Context
	return c.Pod != nil && f.inChain(c.Pod.UID) || c.Resource != nil && f.inChain(c.Resource.UID)
}

func (f *Facts) inChain(uid types.UID) bool {
	e := f.byUID[uid]
	return e != nil && e.role.caused() && e.request == nil
}

// followRequest adds what the request was made for, its checks and its rules.
func (f *Facts) followRequest(e *entry) {
	spec, status, at := &e.request.Spec, &e.request.Status, e.Created
	if run := spec.Context.Resource; run != nil {
		f.add(Reference(*run), above).sawAlive(at)
	}
	if pod := spec.Context.Pod; pod != nil {
		f.add(&Object{Version: "v1", Kind: "Pod", Resource: "pods", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, above).sawAlive(at)
	}
	for _, check := range checksOf(status) {
		o := Reference(approvalv1alpha1.ObjectReference{
			APIVersion: check.APIVersion, Kind: check.Kind, Namespace: check.Namespace, Name: check.ObjectName, UID: check.UID,
		})
		o.Request = &approvalv1alpha1.RequestReference{Namespace: e.Namespace, Name: e.Name, UID: e.UID}
		f.add(o, beside)
	}
	for i := range status.Rules {
		f.add(ours(kindRule, spec.ObjectRef.Namespace, status.Rules[i].Name, status.Rules[i].UID), beside)
	}
}

func checksOf(status *approvalv1alpha1.ResourceCheckRequestStatus) []approvalv1alpha1.CheckReference {
	checks := slices.Clone(status.RequestRefs)
	for i := range status.Superseded {
		if check := status.Superseded[i].Check; check != nil && !slices.Contains(checks, *check) {
			checks = append(checks, *check)
		}
	}
	return checks
}

// AddAnswer takes an answer up if it answers a check of the chain, or is the target, and tells whether it does.
func (f *Facts) AddAnswer(a *approvalv1alpha1.ApprovalResponse, source Source) bool {
	e, check := f.byUID[a.UID], f.byUID[a.Spec.RequestRef.UID]
	if e == nil && (check == nil || a.Spec.RequestRef.UID == "") {
		return false
	}
	o := ObjectOf(approvalv1alpha1.GroupVersion.WithKind(kindAnswer), a)
	if e == nil {
		e = f.add(o, beside)
	}
	if source >= e.source || e.answer == nil {
		e.answer = a
	}
	f.know(e, o, source)
	if check == nil && a.Spec.RequestRef.UID != "" {
		f.add(answered(a), above)
	}
	return true
}

func answered(a *approvalv1alpha1.ApprovalResponse) *Object {
	ref := a.Spec.RequestRef
	o := ours(ref.Kind, a.Namespace, ref.Name, ref.UID)
	if ref.APIVersion != "" {
		gv, _ := schema.ParseGroupVersion(ref.APIVersion)
		o.Group, o.Version = gv.Group, gv.Version
	}
	return o
}

// AddRun takes up what archived evidence says of the run of a request of the chain, from the pod upwards.
func (f *Facts) AddRun(hops []approvalv1alpha1.ContextHop) {
	for i := range hops {
		e := f.add(Reference(hops[i].Resource), above)
		if e.archive != nil {
			continue
		}
		e.archive = &hop{createdBy: hops[i].CreatedBy, proven: hops[i].Proven}
		if i+1 < len(hops) {
			e.archive.owner = hops[i+1].Resource.UID
		}
	}
}

// Concerns tells whether a run, from the pod upwards, has to do with the chain.
func (f *Facts) Concerns(hops []approvalv1alpha1.ContextHop) bool {
	return slices.ContainsFunc(hops, func(hop approvalv1alpha1.ContextHop) bool { return f.inChain(hop.Resource.UID) })
}

// Namespaces are those in which requests for the chain's runs and pods are made.
func (f *Facts) Namespaces() []string {
	var namespaces []string
	for _, e := range f.entries {
		if e.role.caused() && e.Namespace != "" && !slices.Contains(namespaces, e.Namespace) {
			namespaces = append(namespaces, e.Namespace)
		}
	}
	return namespaces
}

// Answerable are the checks of the chain, of which answers may be there.
func (f *Facts) Answerable() []Object {
	var checks []Object
	for _, e := range f.entries {
		if e.Request != nil && e.UID != "" {
			checks = append(checks, e.Object)
		}
	}
	return checks
}
