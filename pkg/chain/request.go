package chain

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

const noCredential = "no credential of the caller's own was seen"

// personDoubt is doubt about what the server wrote of a caller into an object of ours.
func (f *Facts) personDoubt(e *entry, who *approvalv1alpha1.Identity) string {
	if who.Asserted() {
		return join(f.doubt(e), noCredential)
	}
	return f.doubt(e)
}

// requestLinks are who asked, and for what.
func (b *builder) requestLinks(e *entry, deeds []deed) {
	spec := &e.request.Spec
	record := Record{Evidence: e.source.evidence()}
	if who := spec.RequestedBy; who != nil {
		record.By, record.Doubt = who.Username, b.personDoubt(e, who)
	}
	asked, known := Judge(record, sightings(deeds, Created))
	if known {
		b.deed(&asked, e, RelationRequested, e.Created)
	}
	b.requestParent(e, &asked)
	b.openRules(e)
	for _, user := range e.request.Status.Askers {
		b.link(Link{From: b.user(user), To: e.id(), Relation: RelationAskedToo, Grade: Asserted,
			Why: "the request names him without his credential", Evidence: []Evidence{e.source.evidence()}})
	}
	if r := spec.Revoked; r != nil && r.By != "" {
		revoked, _ := Judge(Record{By: r.By, Doubt: b.doubt(e), Evidence: e.source.evidence()}, byName(sightings(deeds, Changed)))
		var at time.Time
		if r.At != nil {
			at = r.At.Time
		}
		b.deed(&revoked, e, RelationRevoked, at)
		b.out.Links[len(b.out.Links)-1].Text = r.Reason
	}
}

// openRules are those that have no check yet.
func (b *builder) openRules(e *entry) {
	for i := range e.request.Status.Rules {
		rule := &e.request.Status.Rules[i]
		asked := slices.ContainsFunc(checksOf(&e.request.Status), func(ref approvalv1alpha1.CheckReference) bool { return ref.Name == rule.Name })
		if !asked {
			b.ruleLink(rule, e, e)
		}
	}
}

// byName takes certain events for such that only may be the deed: of several changes one is.
func byName(seen []Sighting) []Sighting {
	for i := range seen {
		seen[i].Match = min(seen[i].Match, ByName)
	}
	return seen
}

// requestParent is the pod or run that the request was made for: the server read it from the caller's token, or has
// verified it.
func (b *builder) requestParent(e *entry, asked *Finding) {
	parent := types.UID("")
	if pod := e.request.Spec.Context.Pod; pod != nil {
		parent = pod.UID
	} else if run := e.request.Spec.Context.Resource; run != nil {
		parent = run.UID
	}
	if b.byUID[parent] == nil || parent == "" {
		return
	}
	grade, why := asked.Grade, asked.Why
	if asked.User == "" {
		grade, why = Inferred, "who asked is not known"
	}
	b.link(Link{From: string(parent), To: e.id(), Relation: RelationAsked, At: moment(e.Created), Grade: grade, Why: why, Evidence: asked.Evidence})
}

// checkParent is the request of a check, the rule that wanted it, and the answers that the check keeps itself.
func (b *builder) checkParent(e *entry) {
	request := b.byUID[e.Request.UID]
	if request == nil {
		return
	}
	link := Link{From: request.id(), To: e.id(), Relation: RelationChecks, At: moment(e.Created), Grade: Inferred,
		Why: "only the check names the request", Evidence: []Evidence{e.source.evidence()}}
	if request.request == nil {
		b.link(link)
		return
	}
	ref := referenceTo(request.request, e.UID)
	if ref != nil {
		link.Grade, link.Why, link.Evidence = Authenticated, "", []Evidence{request.source.evidence()}
		if doubt := b.doubt(request); doubt != "" {
			link.Grade, link.Why = Asserted, doubt
		}
	}
	b.link(link)
	if ref != nil {
		b.ruleLinks(e, request, ref)
		b.ownAnswers(e, request, ref)
	}
}

func referenceTo(r *approvalv1alpha1.ResourceCheckRequest, check types.UID) *approvalv1alpha1.CheckReference {
	for _, ref := range checksOf(&r.Status) {
		if ref.UID == check && check != "" {
			return &ref
		}
	}
	return nil
}

// ruleLinks are the rule that wanted a check, and who wrote it as it stood then.
func (b *builder) ruleLinks(e, request *entry, ref *approvalv1alpha1.CheckReference) {
	for i := range request.request.Status.Rules {
		rule := &request.request.Status.Rules[i]
		if rule.Name == ref.Name {
			b.ruleLink(rule, request, e)
		}
	}
}

// ruleLink leads from a rule to what it wanted.
func (b *builder) ruleLink(rule *approvalv1alpha1.RuleSnapshot, request, to *entry) {
	of := b.byUID[rule.UID]
	if of == nil {
		return
	}
	grade, why, evidence := Authenticated, "", request.source.evidence()
	if doubt := b.doubt(request); doubt != "" {
		grade, why = Asserted, doubt
	}
	b.link(Link{From: of.id(), To: to.id(), Relation: RelationDemanded, Text: generationText(rule.Generation), Grade: grade, Why: why, Evidence: []Evidence{evidence}})
	b.author(of, rule, evidence)
}

// author is who wrote a rule as a request found it.
func (b *builder) author(rule *entry, snapshot *approvalv1alpha1.RuleSnapshot, evidence Evidence) {
	record := Record{Evidence: evidence, Doubt: "it is not known whether the rule is as young as the records that can be believed"}
	if snapshot.LastAuthor != approvalv1alpha1.UnknownUser {
		record.By = snapshot.LastAuthor
	}
	if rule.source == Live {
		record.Doubt = b.doubt(rule)
	}
	found, known := Judge(record, writes(b.deeds(rule), snapshot.Generation))
	if !known || b.hasLink(b.user(found.User), rule.id(), snapshot.Generation) {
		return
	}
	b.deed(&found, rule, RelationWrote, found.At)
	b.out.Links[len(b.out.Links)-1].Text = generationText(snapshot.Generation)
}

func generationText(generation int64) string { return fmt.Sprintf("generation %d", generation) }

func (b *builder) hasLink(from, to string, generation int64) bool {
	for i := range b.out.Links {
		l := &b.out.Links[i]
		if l.From == from && l.To == to && l.Relation == RelationWrote && l.Text == generationText(generation) {
			return true
		}
	}
	return false
}

// writes are the events that may have made a generation of an object: the one that did, if the log tells generations.
func writes(deeds []deed, generation int64) []Sighting {
	var exact, open []Sighting
	for _, d := range deeds {
		if d.what != Created && d.what != Changed || d.Match == ByTime {
			continue
		}
		switch d.generation {
		case generation:
			if len(exact) == 0 { // later writes left the spec as it was
				exact = append(exact, d.Sighting)
			}
		case 0:
			open = append(open, d.Sighting)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return byName(open)
}

// ownAnswers are those of checks of kinds that keep no object for an answer.
func (b *builder) ownAnswers(e, request *entry, ref *approvalv1alpha1.CheckReference) {
	if e.Group == approvalv1alpha1.GroupVersion.Group && e.Kind == "ApprovalRequest" && b.answersOf(e.UID) {
		return
	}
	for i, d := range decisions(request.request, ref) {
		id := fmt.Sprintf("%s/answers/%d", e.id(), i+1)
		b.out.Nodes = append(b.out.Nodes, Node{ID: id, Type: NodeAnswer, State: d.Decision, Text: d.Comment, Created: moment(d.Time.Time)})
		grade, why := Asserted, "it is known from the check only, which is of another kind"
		switch {
		case d.Asserted:
			why = noCredential
		case e.Group == approvalv1alpha1.GroupVersion.Group && b.doubt(request) == "":
			grade, why = Authenticated, ""
		case e.Group == approvalv1alpha1.GroupVersion.Group:
			why = b.doubt(request)
		}
		evidence := []Evidence{request.source.evidence()}
		b.link(Link{From: e.id(), To: id, Relation: RelationAnswered, At: moment(d.Time.Time), Grade: grade, Why: why, Evidence: evidence})
		b.link(Link{From: b.user(d.Username), To: id, Relation: RelationGave, At: moment(d.Time.Time), Grade: grade, Why: why, Evidence: evidence})
	}
}

func (b *builder) answersOf(check types.UID) bool {
	for _, e := range b.entries {
		if e.answer != nil && e.answer.Spec.RequestRef.UID == check {
			return true
		}
	}
	return false
}

// decisions are what a check answered to its rule. A check that was superseded is told with its own result.
func decisions(r *approvalv1alpha1.ResourceCheckRequest, ref *approvalv1alpha1.CheckReference) []duckv1alpha1.CheckDecision {
	for i := range r.Status.Superseded {
		if s := &r.Status.Superseded[i]; s.Check != nil && s.Check.UID == ref.UID {
			return s.DecidedBy
		}
	}
	for i := range r.Status.Results {
		if r.Status.Results[i].Name == ref.Name {
			return r.Status.Results[i].DecidedBy
		}
	}
	return nil
}

// answerLinks are the check that was answered, and who did.
func (b *builder) answerLinks(e *entry, deeds []deed) {
	record := Record{Evidence: e.source.evidence()}
	if who := e.answer.Spec.Responder; who != nil {
		record.By, record.Doubt = who.Username, b.personDoubt(e, who)
	}
	gave, known := Judge(record, sightings(deeds, Created))
	if known {
		b.deed(&gave, e, RelationGave, e.Created)
	}
	check := b.byUID[e.answer.Spec.RequestRef.UID]
	if check == nil {
		return
	}
	grade, why := gave.Grade, gave.Why
	if !known {
		grade, why = Inferred, "who answered is not known"
	}
	b.link(Link{From: check.id(), To: e.id(), Relation: RelationAnswered, At: moment(e.Created), Grade: grade, Why: why, Evidence: gave.Evidence})
}
