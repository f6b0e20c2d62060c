package chain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

const tekton = "system:serviceaccount:tekton-pipelines:tekton-pipelines-controller"

func sec(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }

// world is facts that are fed again and again, as a reader of files does.
type world struct {
	options Options
	of      *Object
	objects []*Object
	request []*approvalv1alpha1.ResourceCheckRequest
	answers []*approvalv1alpha1.ApprovalResponse
	runs    [][]approvalv1alpha1.ContextHop
	events  []*Event
	uses    []*Use
	source  Source
}

func makeWorld(of *Object) *world {
	return &world{of: of, source: Live, options: Options{
		Epoch: sec(-1000), NoEpoch: "nothing is known",
		Makes: func(child, owner schema.GroupKind, user string) bool {
			return user == tekton && child.Kind != "ConfigMap"
		},
	}}
}

func (w *world) chain(t *testing.T) *Chain {
	t.Helper()
	f := New(w.options, w.of)
	for range 20 {
		f.Restart()
		for _, o := range w.objects {
			read := *o
			f.AddObject(&read, w.source)
		}
		for _, r := range w.request {
			f.AddRequest(r, w.source)
		}
		for _, run := range w.runs {
			if f.Concerns(run) {
				f.AddRun(run)
			}
		}
		for _, a := range w.answers {
			f.AddAnswer(a, w.source)
		}
		for _, e := range w.events {
			f.AddEvent(e)
		}
		if !f.Grew() {
			for _, u := range w.uses {
				f.AddUse(u)
			}
			return f.Chain()
		}
	}
	require.Fail(t, "the facts grow for ever")
	return nil
}

func titled(c *Chain, id string) string {
	n := c.Node(id)
	switch {
	case n == nil:
		return "nobody"
	case n.Type == NodeUser:
		return strings.TrimPrefix(n.Name, "system:serviceaccount:")
	case n.Type == NodeObject:
		return n.Name
	}
	return n.Text
}

func lines(c *Chain) []string {
	var all []string
	for _, l := range c.Links {
		through := ""
		if l.Through != "" {
			through = " through " + strings.TrimPrefix(l.Through, "system:serviceaccount:")
		}
		all = append(all, fmt.Sprintf("%s%s %s %s: %s", titled(c, l.From), through, l.Relation, titled(c, l.To), l.Grade))
	}
	slices.Sort(all)
	return all
}

func object(kind, name, uid string, created time.Time, changes ...func(*Object)) *Object {
	o := &Object{Kind: kind, Resource: ResourceOf(kind), Namespace: "team-a", Name: name, UID: types.UID(uid), Created: created}
	if strings.HasSuffix(kind, "Run") {
		o.Group = "tekton.dev"
	}
	for _, change := range changes {
		change(o)
	}
	return o
}

func createdBy(user string) func(*Object) { return func(o *Object) { o.CreatedBy = user } }

// under names an owner; recorded has it in the creator record, too.
func under(owner *Object, recorded bool) func(*Object) {
	return func(o *Object) {
		o.Owner = &Owner{Group: owner.Group, Kind: owner.Kind, Name: owner.Name, UID: owner.UID}
		o.Controller = true
		if recorded {
			o.CreatedFor = owner.UID
		}
	}
}

// bare is a reference to an object.
func bare(o *Object) *Object {
	return &Object{Group: o.Group, Kind: o.Kind, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

func did(deed Deed, o *Object, user, as string, moment time.Time) *Event {
	return &Event{
		Deed: deed, Group: o.Group, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name, User: user, As: as,
		Received: moment, At: moment.Add(10 * time.Millisecond),
	}
}

// whole is an event as a log with bodies has it.
func whole(e *Event, o *Object) *Event {
	e.UID, e.Object = o.UID, o
	return e
}

// theRun is alice's run with a task and a pod of Tekton's.
func theRun() (run, task, pod *Object) {
	run = object("PipelineRun", "run", "run-1", sec(0), createdBy(alice))
	task = object("TaskRun", "task", "task-1", sec(1), createdBy(tekton), under(run, true))
	pod = object("Pod", "pod", "pod-1", sec(2), createdBy(tekton), under(task, true))
	return run, task, pod
}

func TestChainOfObjects(t *testing.T) {
	run, task, pod := theRun()
	unrecorded := object("Pod", "pod", "pod-1", sec(2), under(task, false))
	adopted := object("Pod", "pod", "pod-1", sec(2), createdBy("eve"), under(task, false))
	forged := object("Pod", "pod", "pod-1", sec(2), createdBy("eve"), under(task, true))
	migrated := object("PipelineRun", "run", "run-1", sec(0), createdBy(alice), func(o *Object) { o.MigratedBy = "admin" })
	acted := createdBy("bot")
	tests := map[string]struct {
		world  *world
		change func(*world)
		want   []string
	}{
		"records": {change: func(w *world) { w.objects = []*Object{run, task, pod} }, want: []string{
			"alice@example.com created run: authenticated", "run caused task: authenticated", "task caused pod: authenticated",
			"tekton-pipelines:tekton-pipelines-controller created pod: authenticated", "tekton-pipelines:tekton-pipelines-controller created task: authenticated",
		}},
		"records older than the epoch": {change: func(w *world) { w.objects, w.options.Epoch = []*Object{run, task, pod}, sec(1) }, want: []string{
			"alice@example.com created run: asserted", "run caused task: asserted", "task caused pod: authenticated",
			"tekton-pipelines:tekton-pipelines-controller created pod: authenticated", "tekton-pipelines:tekton-pipelines-controller created task: asserted",
		}},
		"a migrated record": {change: func(w *world) { w.of, w.objects = bare(run), []*Object{migrated} }, want: []string{
			"alice@example.com created run: asserted",
		}},
		"an owner reference alone": {change: func(w *world) { w.objects = []*Object{unrecorded} }, want: []string{"task caused pod: inferred"}},
		"an owner that was set afterwards": {change: func(w *world) { w.objects = []*Object{adopted} }, want: []string{
			"eve created pod: authenticated", "task caused pod: inferred"}},
		"an owner that the creator chose": {change: func(w *world) { w.objects = []*Object{forged} }, want: []string{
			"eve created pod: authenticated", "task caused pod: asserted"}},
		"the log shows who acted": {
			change: func(w *world) {
				w.of, w.objects = bare(run), []*Object{object("PipelineRun", "run", "run-1", sec(0), acted)}
				w.events = []*Event{did(Created, run, alice, "bot", sec(0))}
			},
			want: []string{"alice@example.com through bot created run: asserted"},
		},
		"a log with bodies alone": {
			change: func(w *world) {
				w.options.Epoch = time.Time{}
				w.events = []*Event{
					whole(did(Created, run, alice, "", sec(0)), run), whole(did(Created, task, "root", tekton, sec(1)), task),
					whole(did(Created, pod, tekton, "", sec(2)), pod), whole(did(Deleted, pod, "bob", "", sec(9)), pod),
				}
			},
			want: []string{
				"alice@example.com created run: authenticated", "bob deleted pod: authenticated", "root through tekton-pipelines:tekton-pipelines-controller created task: asserted",
				"run caused task: asserted", "task caused pod: authenticated", "tekton-pipelines:tekton-pipelines-controller created pod: authenticated",
			},
		},
		"a log without bodies alone": {
			change: func(w *world) {
				w.of = &Object{Group: run.Group, Kind: run.Kind, Resource: run.Resource, Namespace: run.Namespace, Name: run.Name, Created: sec(0).Add(10 * time.Millisecond)}
				w.events = []*Event{did(Created, run, alice, "", sec(0)), did(Changed, run, "bob", "", sec(1)), did(Created, task, tekton, "", sec(1))}
			},
			want: []string{"alice@example.com created run: inferred", "bob changed run: inferred"},
		},
		"a creation in the same second is a hint": {
			change: func(w *world) {
				w.objects = []*Object{object("Pod", "pod", "pod-1", sec(2))}
				w.events = []*Event{did(Created, &Object{Resource: "pods", Namespace: "team-a"}, tekton, "", sec(2))}
			},
			want: []string{"tekton-pipelines:tekton-pipelines-controller created pod: inferred"},
		},
		"owners in a circle": {
			change: func(w *world) {
				a, b := object("ConfigMap", "a", "a-1", sec(0)), object("ConfigMap", "b", "b-1", sec(0))
				under(b, false)(a)
				under(a, false)(b)
				w.of, w.objects = bare(a), []*Object{a, b}
			},
			want: []string{"a caused b: inferred", "b caused a: inferred"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := makeWorld(bare(pod))
			test.change(w)
			c := w.chain(t)
			assert.Equal(t, test.want, lines(c))
			assert.NotEmpty(t, c.Trees(), "every chain has a beginning")
		})
	}
}

func TestLivesOfANameAreNotMixed(t *testing.T) {
	first, second := object("PipelineRun", "run", "run-1", sec(0)), object("PipelineRun", "run", "run-2", sec(10))
	for name, bodies := range map[string]bool{"with UIDs": true, "without UIDs": false} {
		t.Run(name, func(t *testing.T) {
			log := func(deed Deed, o *Object, user string, moment time.Time) *Event {
				e := did(deed, o, user, "", moment)
				if bodies {
					return whole(e, o)
				}
				return e
			}
			events := []*Event{
				log(Created, first, alice, sec(0)), log(Changed, first, "carol", sec(3)), log(Deleted, first, "dave", sec(5)),
				log(Created, second, "bob", sec(10)), log(Changed, second, "eve", sec(12)),
			}
			of := func(o *Object) []string {
				w := makeWorld(bare(o))
				w.objects, w.events = []*Object{o}, events
				var users []string
				for _, line := range lines(w.chain(t)) {
					users = append(users, strings.Join(strings.Fields(line)[:2], " "))
				}
				return users
			}
			assert.Equal(t, []string{"alice@example.com created", "carol changed", "dave deleted"}, of(first))
			assert.Equal(t, []string{"bob created", "eve changed"}, of(second))
		})
	}
}

func TestFinderTellsLivesApart(t *testing.T) {
	run := func(uid string, created time.Time) *Object { return object("PipelineRun", "run", uid, created) }
	uids := func(lives []*Object) []string {
		var texts []string
		for _, o := range lives {
			texts = append(texts, fmt.Sprintf("%s %d", o.UID, int(o.Created.Sub(at).Seconds())))
		}
		return texts
	}
	t.Run("with bodies", func(t *testing.T) {
		f := &Finder{Word: "pipelineruns", Namespace: "team-a", Name: "run"}
		f.AddEvent(whole(did(Created, run("", sec(5)), "bob", "", sec(5)), run("b", sec(5))))
		f.AddEvent(whole(did(Created, run("", sec(0)), alice, "", sec(0)), run("a", sec(0))))
		assert.Equal(t, []string{"a 0", "b 5"}, uids(f.Lives()))
	})
	t.Run("without bodies, an update tells the UID", func(t *testing.T) {
		f := &Finder{Word: "pipelinerun", Group: "tekton.dev", Namespace: "team-a", Name: "run"}
		f.AddEvent(did(Created, run("", sec(0)), alice, "", sec(0)))
		f.AddEvent(did(Created, run("", sec(5)), "bob", "", sec(5)))
		update := did(Changed, run("", sec(0)), "bob", "", sec(2))
		update.UID = "a"
		f.AddEvent(update)
		f.AddEvent(did(Created, object("TaskRun", "run", "", sec(7)), "bob", "", sec(7)))
		lives := f.Lives()
		assert.Equal(t, []string{"a 0", " 5"}, uids(lives))
		assert.Equal(t, []string{"tekton.dev"}, Groups(lives))
	})
}

func theRequest() *approvalv1alpha1.ResourceCheckRequest {
	credential := map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: {"JTI=1"}}
	return &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "rcr-1", UID: "rcr-1", CreationTimestamp: metav1.NewTime(sec(3))},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Namespace: "prod", Name: "tool"},
			Context: approvalv1alpha1.RequestContext{
				Subject:  &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectServiceAccount, Namespace: "team-a", Name: "bot"},
				Pod:      &approvalv1alpha1.PodReference{Namespace: "team-a", Name: "pod", UID: "pod-1"},
				Resource: &approvalv1alpha1.ObjectReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Namespace: "team-a", Name: "run", UID: "run-1"},
			},
			RequestedBy: &approvalv1alpha1.Identity{Username: bot, Extra: credential},
		},
		Status: approvalv1alpha1.ResourceCheckRequestStatus{
			Rules: []approvalv1alpha1.RuleSnapshot{{Name: "owners", UID: "rule-1", Generation: 2, LastAuthor: "owner1"}},
			RequestRefs: []approvalv1alpha1.CheckReference{{Name: "owners", APIVersion: "approval.alaudadevops.io/v1alpha1", Kind: "ApprovalRequest",
				Namespace: "prod", ObjectName: "check", UID: "check-1"}},
		},
	}
}

func theAnswer(name, responder string, credential bool) *approvalv1alpha1.ApprovalResponse {
	a := &approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(sec(4))},
		Spec: approvalv1alpha1.ApprovalResponseSpec{
			RequestRef: approvalv1alpha1.CheckTarget{Kind: "ApprovalRequest", Name: "check", UID: "check-1"},
			Decision:   approvalv1alpha1.DecisionApprove, Responder: &approvalv1alpha1.Identity{Username: responder},
		},
	}
	if credential {
		a.Spec.Responder.Extra = map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: {"JTI=2"}}
	}
	return a
}

func TestChainOfARequest(t *testing.T) {
	run, task, pod := theRun()
	rule := ours(kindRule, "prod", "owners", "rule-1")
	rule.Created, rule.Generation = sec(-5), 2
	tests := map[string]struct {
		change func(*world)
		want   []string
	}{
		"live": {
			change: func(w *world) { w.objects = append(w.objects, rule) },
			want: []string{
				"check answered answer-1: authenticated", "check answered answer-2: asserted", "owner1 gave answer-1: authenticated",
				"owner1 wrote owners: authenticated", "owner2 gave answer-2: asserted", "owners demanded check: authenticated",
				"pod asked rcr-1: authenticated", "rcr-1 checks check: authenticated", "team-a:bot requested rcr-1: authenticated",
			},
		},
		"archived, without an epoch": {
			change: func(w *world) { w.source, w.options.Epoch = Archived, time.Time{} },
			want: []string{
				"check answered answer-1: authenticated", "check answered answer-2: asserted", "owner1 gave answer-1: authenticated",
				"owner1 wrote owners: asserted", "owner2 gave answer-2: asserted", "owners demanded check: authenticated",
				"pod asked rcr-1: authenticated", "rcr-1 checks check: authenticated", "team-a:bot requested rcr-1: authenticated",
			},
		},
		"live, but nobody knows since when records count": {
			change: func(w *world) { w.options.Epoch = time.Time{} },
			want: []string{
				"check answered answer-1: asserted", "check answered answer-2: asserted", "owner1 gave answer-1: asserted",
				"owner1 wrote owners: asserted", "owner2 gave answer-2: asserted", "owners demanded check: asserted",
				"pod asked rcr-1: asserted", "rcr-1 checks check: asserted", "team-a:bot requested rcr-1: asserted",
			},
		},
		"the log shows who wrote that generation of the rule": {
			change: func(w *world) {
				earlier, later := *rule, *rule
				earlier.Generation, later.Generation = 1, 3
				w.objects = append(w.objects, rule)
				w.events = []*Event{
					whole(did(Created, rule, "owner9", "", sec(-5)), &earlier), whole(did(Changed, rule, "root", "owner1", sec(-4)), rule),
					whole(did(Changed, rule, "owner8", "", sec(8)), &later),
				}
			},
			want: []string{
				"check answered answer-1: authenticated", "check answered answer-2: asserted", "owner1 gave answer-1: authenticated",
				"owner2 gave answer-2: asserted", "owners demanded check: authenticated",
				"pod asked rcr-1: authenticated", "rcr-1 checks check: authenticated", "root through owner1 wrote owners: asserted", "team-a:bot requested rcr-1: authenticated",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := makeWorld(bare(pod))
			w.request = []*approvalv1alpha1.ResourceCheckRequest{theRequest()}
			w.answers = []*approvalv1alpha1.ApprovalResponse{theAnswer("answer-1", "owner1", true), theAnswer("answer-2", "owner2", false)}
			test.change(w)
			assert.Equal(t, test.want, lines(w.chain(t)))
		})
	}
	t.Run("from the answer upwards", func(t *testing.T) {
		answer := theAnswer("answer-1", "owner1", true)
		check := ours("ApprovalRequest", "prod", "check", "check-1")
		check.Request = &approvalv1alpha1.RequestReference{UID: "rcr-1"}
		w := makeWorld(ours(kindAnswer, "prod", "answer-1", "answer-1"))
		w.objects = []*Object{run, task, pod, check}
		w.request, w.answers = []*approvalv1alpha1.ResourceCheckRequest{theRequest()}, []*approvalv1alpha1.ApprovalResponse{answer}
		c := w.chain(t)
		require.Len(t, c.Trees(), 1)
		path := []string{}
		for tree := c.Trees()[0]; ; tree = tree.Children[0] {
			path = append(path, tree.Name)
			if len(tree.Children) == 0 {
				break
			}
		}
		assert.Equal(t, []string{"run", "task", "pod", "rcr-1", "check", "answer-1"}, path)
	})
}

func TestAnswersOfOtherKindsAreTheirOwnWord(t *testing.T) {
	_, _, pod := theRun()
	r := theRequest()
	r.Status.RequestRefs[0].APIVersion, r.Status.RequestRefs[0].Kind = "openshift-pipelines.org/v1alpha1", "ApprovalTask"
	r.Status.Results = []approvalv1alpha1.CheckResult{{Name: "owners", DecidedBy: []duckv1alpha1.CheckDecision{{Username: "owner1", Decision: "approve", Comment: "ok"}}}}
	w := makeWorld(bare(pod))
	w.request = []*approvalv1alpha1.ResourceCheckRequest{r}
	assert.Contains(t, lines(w.chain(t)), "owner1 gave ok: asserted")
}

func TestArchivedRun(t *testing.T) {
	run, task, pod := theRun()
	hop := func(o *Object, by string, proven bool) approvalv1alpha1.ContextHop {
		version := schema.GroupVersion{Group: o.Group, Version: "v1"}.String()
		return approvalv1alpha1.ContextHop{CreatedBy: by, Proven: proven, Resource: approvalv1alpha1.ObjectReference{
			APIVersion: version, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}}
	}
	w := makeWorld(bare(run))
	w.source, w.options.Epoch = Archived, time.Time{}
	w.request = []*approvalv1alpha1.ResourceCheckRequest{theRequest()}
	w.runs = [][]approvalv1alpha1.ContextHop{{hop(pod, tekton, true), hop(task, approvalv1alpha1.UnknownUser, false), hop(run, alice, false)}}
	got := lines(w.chain(t))
	assert.Contains(t, got, "task caused pod: authenticated")
	assert.Contains(t, got, "run caused task: inferred", "what was not proven then is not now")
	assert.Contains(t, got, "alice@example.com created run: authenticated")
	assert.NotContains(t, strings.Join(got, "\n"), "unknown")
}

func TestTreeGoesDown(t *testing.T) {
	run, task, pod := theRun()
	stranger := object("ConfigMap", "other", "other-1", sec(1), under(object("Pod", "x", "x-1", sec(0)), false))
	w := makeWorld(bare(run))
	w.objects = []*Object{pod, stranger, task, run}
	assert.Equal(t, []string{"alice@example.com created run: authenticated"}, lines(w.chain(t)), "down only on demand")
	w.options.Tree = true
	assert.Len(t, lines(w.chain(t)), 5)
}

func TestUses(t *testing.T) {
	_, _, pod := theRun()
	request := theRequest()
	person := theRequest()
	person.Name, person.UID = "rcr-2", "rcr-2"
	person.Spec.Context = approvalv1alpha1.RequestContext{Subject: &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: alice}}
	bound := person.DeepCopy()
	bound.Spec.Context.Token = &approvalv1alpha1.TokenReference{JTI: "jti-1"}
	ended := person.DeepCopy()
	ended.Status.Ended = &approvalv1alpha1.Ended{At: metav1.NewTime(sec(5))}
	tests := map[string]struct {
		of      *Object
		request *approvalv1alpha1.ResourceCheckRequest
		use     Use
		want    Grade
	}{
		"by the pod":                    {bare(pod), request, Use{Request: "team-a/rcr-1", PodUID: "pod-1"}, Authenticated},
		"by another pod of the run":     {bare(pod), request, Use{Request: "team-a/rcr-1", PodUID: "pod-7", ContextUID: "run-1"}, Authenticated},
		"under another life of a name":  {bare(pod), request, Use{Request: "team-a/rcr-1", PodUID: "pod-7", ContextUID: "run-7"}, ""},
		"without a request, by the pod": {bare(pod), request, Use{PodUID: "pod-1"}, Authenticated},
		"by a person":                   {ours(kindRequest, "team-a", "rcr-2", "rcr-2"), person, Use{Request: "team-a/rcr-2", Subject: alice}, Inferred},
		"by another person":             {ours(kindRequest, "team-a", "rcr-2", "rcr-2"), person, Use{Request: "team-a/rcr-2", Subject: "bob"}, ""},
		"by a person's token":           {ours(kindRequest, "team-a", "rcr-2", "rcr-2"), bound, Use{Request: "team-a/rcr-2", Subject: alice, JTI: "jti-1"}, Authenticated},
		"by another token":              {ours(kindRequest, "team-a", "rcr-2", "rcr-2"), bound, Use{Request: "team-a/rcr-2", Subject: alice, JTI: "jti-2"}, ""},
		"after the end":                 {ours(kindRequest, "team-a", "rcr-2", "rcr-2"), ended, Use{Request: "team-a/rcr-2", Subject: alice, Verdict: "allow"}, ""},
		"by somebody else":              {bare(pod), request, Use{Subject: bot, PodUID: "pod-9"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := makeWorld(test.of)
			w.objects, w.request = []*Object{pod}, []*approvalv1alpha1.ResourceCheckRequest{test.request}
			again := test.use
			test.use.At, again.At = sec(200), sec(201)
			w.uses = []*Use{&test.use, &again}
			var got []Link
			for _, l := range w.chain(t).Links {
				if l.Relation == RelationUsed {
					got = append(got, l)
				}
			}
			if test.want == "" {
				assert.Empty(t, got)
				return
			}
			require.Len(t, got, 1, "uses that are alike are told together")
			assert.Equal(t, test.want, got[0].Grade)
			assert.Equal(t, 2, got[0].Count)
		})
	}
}

func TestRunsOfReleases(t *testing.T) {
	labels := map[string]string{"attribution.alaudadevops.io/release-uid": "release-1", "attribution.alaudadevops.io/release-name": "app-1",
		"attribution.alaudadevops.io/release-namespace": "dev"}
	run := ObjectOf(schema.GroupVersionKind{Group: "tekton.dev", Version: "v1", Kind: "PipelineRun"},
		&metav1.ObjectMeta{Namespace: "managed", Name: "run", UID: "run-1", Labels: labels, CreationTimestamp: metav1.NewTime(sec(1))})
	run.CreatedBy = tekton
	w := makeWorld(bare(run))
	w.objects = []*Object{run}
	c := w.chain(t)
	assert.Contains(t, lines(c), "app-1 caused run: inferred", "a label may be changed by others")
	w.events = []*Event{whole(did(Created, run, tekton, "", sec(1)), run)}
	assert.Contains(t, lines(w.chain(t)), "app-1 caused run: authenticated")
}

func TestChainsAreBounded(t *testing.T) {
	target := object("PipelineRun", "run", "run-1", sec(0))
	w := makeWorld(bare(target))
	w.options.Tree = true
	w.objects = []*Object{target}
	for i := range maxObjects + 10 {
		name := fmt.Sprintf("c%d", i)
		w.objects = append(w.objects, object("ConfigMap", name, name, sec(1), under(target, false)))
	}
	c := w.chain(t)
	assert.Len(t, c.Nodes, maxObjects)
	assert.Contains(t, strings.Join(c.Notes, " "), "cut off")
}
