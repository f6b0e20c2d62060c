package chain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// Chain is what follows from the facts.
func (f *Facts) Chain() *Chain {
	b := &builder{Facts: f, users: map[string]bool{}}
	b.out.Target = f.target.id()
	b.out.Nodes, b.out.Links = []Node{}, []Link{}
	for _, e := range f.entries {
		b.node(e)
	}
	for _, e := range f.entries {
		b.entry(e)
	}
	b.out.Notes = append(slices.Clone(f.notes), f.otherLives()...)
	return &b.out
}

// otherLives tells that other objects had the target's name.
func (f *Facts) otherLives() []string {
	if len(f.lives) == 0 {
		return nil
	}
	var uids []string
	for _, uid := range slices.Sorted(maps.Keys(f.lives)) {
		text := string(uid)
		if created := f.lives[uid]; !created.IsZero() {
			text += " (created " + created.UTC().Format(time.RFC3339) + ")"
		}
		uids = append(uids, text)
	}
	return []string{fmt.Sprintf("Other objects had the name %s, and are not part of this: %s.", f.target.Name, strings.Join(uids, ", "))}
}

type builder struct {
	*Facts
	out   Chain
	users map[string]bool
}

func (e *entry) id() string {
	if e.UID != "" {
		return string(e.UID)
	}
	return strings.Join([]string{e.Group, e.Resource, e.Namespace, e.Name}, "/")
}

// title names an object for people.
func (o *Object) title() string {
	kind := strings.ToLower(o.Kind)
	if kind == "" {
		kind = o.Resource
	}
	if o.Namespace == "" {
		return kind + "/" + o.Name
	}
	return kind + "/" + o.Name + " in " + o.Namespace
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (b *builder) node(e *entry) {
	kind := e.Kind
	if kind == "" {
		kind = e.Resource
	}
	n := Node{
		ID: e.id(), Type: NodeObject, Group: e.Group, Kind: kind, Namespace: e.Namespace, Name: e.Name, UID: string(e.UID),
		Created: moment(e.Created), State: e.State, Text: e.Message,
	}
	if e.source == unread {
		n.Missing = e.gone
	}
	if e.request != nil {
		n.State, n.Text = stateOf(e.request), e.request.Spec.Reason
	}
	if e.answer != nil {
		n.State, n.Text = string(e.answer.Spec.Decision), e.answer.Spec.Comment
	}
	b.out.Nodes = append(b.out.Nodes, n)
}

func stateOf(r *approvalv1alpha1.ResourceCheckRequest) string {
	if r.Status.Ended != nil {
		return r.Status.Ended.Reason
	}
	if ready := apimeta.FindStatusCondition(r.Status.Conditions, approvalv1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}

// user makes the node of a user, once.
func (b *builder) user(name string) string {
	id := "user:" + name
	if !b.users[name] {
		b.users[name] = true
		b.out.Nodes = append(b.out.Nodes, Node{ID: id, Type: NodeUser, Name: name})
	}
	return id
}

func (b *builder) link(l Link) {
	if l.Evidence == nil {
		l.Evidence = []Evidence{}
	}
	b.out.Links = append(b.out.Links, l)
}

func (b *builder) deed(f *Finding, to *entry, relation Relation, at time.Time) {
	if !f.At.IsZero() && at.IsZero() {
		at = f.At
	}
	b.link(Link{
		From: b.user(f.User), To: to.id(), Relation: relation, Through: f.Through, At: moment(at),
		Grade: f.Grade, Why: f.Why, Evidence: f.Evidence,
	})
}

func (b *builder) entry(e *entry) {
	deeds := b.deeds(e)
	switch {
	case e.Kind == kindRule && e.Group == approvalv1alpha1.GroupVersion.Group && e.role == beside:
		return // told with the checks that it wanted
	case e.request != nil:
		b.requestLinks(e, deeds)
	case e.answer != nil:
		b.answerLinks(e, deeds)
	case e.Request != nil && e.role != target:
		b.checkParent(e)
	default:
		b.objectLinks(e, deeds)
	}
	b.changes(e, deeds)
	b.useLinks(e)
}

// objectLinks are who created an object, and what for.
func (b *builder) objectLinks(e *entry, deeds []deed) {
	creator, known := b.creator(e, deeds)
	if known {
		b.deed(&creator, e, RelationCreated, e.Created)
	}
	if e.Request != nil {
		b.checkParent(e)
		return
	}
	owner := e.ownerUID()
	if b.byUID[owner] == nil || owner == "" {
		return
	}
	grade, why, evidence := Cause(b.ties(e, deeds, &creator, owner))
	b.link(Link{From: string(owner), To: e.id(), Relation: RelationCaused, At: moment(e.Created), Grade: grade, Why: why, Evidence: evidence})
}

// ownerUID is what an object was made for: what it names now, else what it was created for.
func (e *entry) ownerUID() types.UID {
	switch {
	case e.Owner != nil:
		return e.Owner.UID
	case e.CreatedFor != "":
		return e.CreatedFor
	case e.archive != nil:
		return e.archive.owner
	}
	return ""
}

func (b *builder) creator(e *entry, deeds []deed) (Finding, bool) {
	record := Record{By: e.CreatedBy, Doubt: b.doubt(e), Evidence: e.source.evidence()}
	if e.archive != nil && (record.By == "" || record.Doubt != "") && e.archive.createdBy != approvalv1alpha1.UnknownUser {
		record = Record{By: e.archive.createdBy, Evidence: FromArchive}
	}
	return Judge(record, sightings(deeds, Created))
}

// doubt says why the record of an object is not believed; empty if it is.
func (f *Facts) doubt(e *entry) string {
	switch {
	case e.MigratedBy != "":
		return fmt.Sprintf("the record was assigned afterwards, by %q", e.MigratedBy)
	case e.source == Archived:
		return ""
	case f.Epoch.IsZero():
		return f.NoEpoch
	case !e.Created.After(f.Epoch):
		return "the object is older than the records that can be believed, which begin at " + f.Epoch.UTC().Format(time.RFC3339)
	}
	return ""
}

func (s Source) evidence() Evidence {
	switch s {
	case Archived:
		return FromArchive
	case Logged:
		return FromAudit
	}
	return FromRecord
}

func (b *builder) ties(e *entry, deeds []deed, creator *Finding, owner types.UID) Ties {
	t := Ties{
		Reference: e.Owner != nil && e.Controller,
		Recorded:  e.CreatedFor == owner,
		Proven:    e.archive != nil && e.archive.proven && e.archive.owner == owner,
		Creator:   *creator,
		Doubt:     b.doubt(e),
	}
	for _, d := range deeds {
		t.Logged = t.Logged || d.what == Created && d.Match == ByUID && d.owner == owner
	}
	effective := creator.User
	if creator.Through != "" {
		effective = creator.Through
	}
	parent := b.byUID[owner]
	t.Controller = b.Makes != nil && b.Makes(e.GroupKind(), parent.GroupKind(), effective)
	return t
}

func sightings(deeds []deed, what Deed) []Sighting {
	var seen []Sighting
	for _, d := range deeds {
		if d.what == what {
			seen = append(seen, d.Sighting)
		}
	}
	return seen
}

// changes are who changed and deleted an object: as the log shows it, and as the object says.
func (b *builder) changes(e *entry, deeds []deed) {
	logged := false
	for i := range deeds {
		d := &deeds[i]
		if d.what != Changed && d.what != Deleted || d.Match == ByTime {
			continue
		}
		logged = logged || d.what == Changed
		finding, _ := Judge(Record{}, []Sighting{d.Sighting})
		relation := RelationChanged
		if d.what == Deleted {
			relation = RelationDeleted
		}
		b.deed(&finding, e, relation, d.first)
		if d.count > 1 {
			last := &b.out.Links[len(b.out.Links)-1]
			last.Count, last.Until = d.count, moment(d.At)
		}
	}
	if e.ChangedBy != "" && e.ChangedBy != e.CreatedBy && !logged {
		finding, _ := Judge(Record{By: e.ChangedBy, Doubt: b.doubt(e), Evidence: e.source.evidence()}, nil)
		b.deed(&finding, e, RelationChanged, time.Time{})
	}
}

func (b *builder) useLinks(e *entry) {
	for i, u := range e.uses {
		id := fmt.Sprintf("%s/uses/%d", e.id(), i+1)
		text := strings.TrimSpace(u.Method + " " + u.Path)
		if u.Connector != "" {
			text += " at connector " + u.Connector
		}
		b.out.Nodes = append(b.out.Nodes, Node{
			ID: id, Type: NodeUse, Kind: u.Operation, State: fmt.Sprintf("%s %d %s", u.Verdict, u.Status, u.Reason),
			Text: text, Created: moment(u.At),
		})
		at, until := moment(u.At), moment(u.until)
		evidence := []Evidence{FromAccessLog}
		b.link(Link{From: e.id(), To: id, Relation: RelationUsed, At: at, Until: until, Count: u.count, Grade: u.grade, Why: u.why, Evidence: evidence})
		if u.Subject != "" {
			b.link(Link{From: b.user(u.Subject), To: id, Relation: RelationMade, At: at, Grade: Authenticated, Evidence: evidence})
		}
	}
	if e.more > 0 {
		b.out.Notes = append(b.out.Notes, fmt.Sprintf("%d further uses of other kinds by %s are left out.", e.more, e.title()))
	}
}
