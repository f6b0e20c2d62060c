package releaseplan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

const (
	robot       = "system:serviceaccount:argocd:controller"
	author      = "attribution.alaudadevops.io/author"
	standing    = "attribution.alaudadevops.io/standing"
	proposed    = "attribution.alaudadevops.io/proposed-author"
	accepts     = "attribution.alaudadevops.io/accept"
	authorLabel = "release.rhtap.openshift.io/author"
	asks        = "release.rhtap.openshift.io/standing-attribution"

	byAlice = `{"generation":3,"author":"alice","acceptedAt":"2026-03-01T00:00:00Z"}`
)

var now = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func newWebhook() *Webhook {
	return New(Deps{Clock: clocktesting.NewFakePassiveClock(now), Vocabulary: attribution.Default()})
}

// plan is one of generation 3, over which the YAML is merged.
func plan(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	for name, value := range map[string]any{"apiVersion": "appstudio.redhat.com/v1alpha1", "kind": "ReleasePlan"} {
		u.Object[name] = value
	}
	u.SetName("plan")
	u.SetNamespace("team-a")
	u.SetGeneration(3)
	return u
}

func review(user string, old, object *unstructured.Unstructured) *admit.Review {
	operation := admissionv1.Update
	if old == nil {
		operation = admissionv1.Create
	}
	return &admit.Review{
		Caller: admit.CallerOf(authenticationv1.UserInfo{Username: user}), Operation: operation, Namespace: "team-a", Old: old, Object: object,
	}
}

// Parts of plans.
const (
	spec      = "spec: {target: managed}\n"
	moved     = "spec: {target: other}\n"
	asking    = "metadata: {labels: {" + asks + `: "true"}}` + "\n"
	standsIn  = "metadata: {labels: {" + asks + `: "true", ` + authorLabel + ": alice}, annotations: {" + author + ": alice, " + standing + ": '" + byAlice + "'}}\n"
	elsewhere = "metadata: {labels: {" + asks + `: "true", release.rhtap.openshift.io/releasePlanAdmission: b}}` + "\n"
	asked     = "metadata: {labels: {" + asks + `: "true"}, annotations: {` + proposed + ": alice}}\n"
)

func sends(labels bool, annotations ...string) string {
	text := "metadata: {annotations: {" + strings.Join(annotations, ", ") + "}"
	if labels {
		text += ", labels: {" + asks + `: "true"}`
	}
	return text + "}\n"
}

func TestSettle(t *testing.T) {
	type texts = map[string]string
	took := func(generation, user string) texts {
		return texts{author: user, standing: `{"generation":` + generation + `,"author":"` + user + `","acceptedAt":"2026-03-02T09:00:00Z"}`}
	}
	with := func(annotations texts, more ...string) texts {
		for i := 0; i < len(more); i += 2 {
			annotations[more[i]] = more[i+1]
		}
		return annotations
	}
	kept := texts{author: "alice", standing: byAlice}
	tests := map[string]struct {
		user, old, sent string
		want            texts
		// label is the author's; the label that asks is as it was sent.
		label string
	}{
		"made by a person":                 {user: "alice", sent: spec + asking, want: took("1", "alice"), label: "alice"},
		"made by a robot":                  {user: robot, sent: spec + asking},
		"made and asks for nobody":         {user: "alice", sent: spec + sends(false, author+": alice")},
		"made in somebody's name":          {user: "alice", sent: spec + strings.ReplaceAll(standsIn, "alice", "bob"), want: took("1", "alice"), label: "alice"},
		"kept":                             {user: "bob", old: spec + standsIn, sent: spec + asking, want: kept, label: "alice"},
		"kept by a robot":                  {user: robot, old: spec + standsIn, sent: spec + asking, want: kept, label: "alice"},
		"kept whatever is forged":          {user: "bob", old: spec + standsIn, sent: spec + sends(true, author+": bob", standing+": '{}'"), want: kept, label: "alice"},
		"moved by a person":                {user: "bob", old: spec + standsIn, sent: moved + asking, want: took("4", "bob"), label: "bob"},
		"moved by a robot":                 {user: robot, old: spec + standsIn, sent: moved + standsIn},
		"pointed elsewhere by a robot":     {user: robot, old: spec + standsIn, sent: spec + elsewhere},
		"pointed elsewhere by a person":    {user: "bob", old: spec + standsIn, sent: spec + elsewhere, want: texts{author: "bob", standing: `{"generation":3,"admission":"b","author":"bob","acceptedAt":"2026-03-02T09:00:00Z"}`}, label: "bob"},
		"status moved by a robot":          {user: robot, old: spec + standsIn, sent: spec + asking + "status: {x: y}\n", want: kept, label: "alice"},
		"asks since now":                   {user: "bob", old: spec, sent: spec + asking, want: took("3", "bob"), label: "bob"},
		"asks since now, by a robot":       {user: robot, old: spec, sent: spec + asking},
		"asks no more":                     {user: robot, old: spec + standsIn, sent: spec + "metadata: {labels: {" + asks + `: "false", ` + authorLabel + ": alice}, annotations: {" + author + ": alice, " + standing + ": '" + byAlice + "'}}\n"},
		"older than the records":           {user: robot, old: spec + "metadata: {labels: {" + asks + `: "true", ` + authorLabel + ": eve}}\n", sent: spec + asking, label: "eve"},
		"proposed":                         {user: robot, old: spec + asking, sent: spec + asked, want: texts{proposed: "alice"}},
		"proposed while somebody stands":   {user: robot, old: spec + standsIn, sent: spec + sends(true, proposed+": bob"), want: with(texts{proposed: "bob"}, author, "alice", standing, byAlice), label: "alice"},
		"accepted":                         {user: "alice", old: spec + asked, sent: spec + sends(true, proposed+": alice", accepts+`: "true"`), want: with(took("3", "alice"), proposed, "alice"), label: "alice"},
		"accepted without the proposal":    {user: "alice", old: spec + asked, sent: spec + sends(true, accepts+`: "true"`), want: took("3", "alice"), label: "alice"},
		"accepted until":                   {user: "alice", old: spec + asked, sent: spec + sends(true, accepts+`: "2026-04-01T00:00:00Z"`), want: texts{author: "alice", standing: `{"generation":3,"author":"alice","acceptedAt":"2026-03-02T09:00:00Z","expiresAt":"2026-04-01T00:00:00Z"}`}, label: "alice"},
		"accepted while it moves":          {user: "alice", old: spec + asking, sent: moved + sends(true, accepts+`: "true"`), want: took("4", "alice"), label: "alice"},
		"accepted anew":                    {user: "alice", old: spec + standsIn, sent: spec + sends(true, accepts+`: "true"`), want: took("3", "alice"), label: "alice"},
		"taken back":                       {user: "alice", old: spec + standsIn, sent: spec + sends(true, accepts+`: "false"`, proposed+": alice"), want: texts{accepts: "false"}},
		"taken back with another's":        {user: "alice", old: spec + standsIn, sent: spec + sends(true, accepts+`: "false"`, proposed+": bob"), want: texts{accepts: "false", proposed: "bob"}},
		"taken back before":                {user: "bob", old: spec + sends(true, accepts+`: "false"`), sent: spec + sends(true, accepts+`: "false"`), want: texts{accepts: "false"}},
		"taken back before, asked again":   {user: "bob", old: spec + sends(true, accepts+`: "false"`), sent: spec + sends(true, accepts+`: "false"`, proposed+": alice"), want: texts{proposed: "alice"}},
		"taken back before, moved":         {user: "bob", old: spec + sends(true, accepts+`: "false"`), sent: moved + sends(true, accepts+`: "false"`), want: took("4", "bob"), label: "bob"},
		"declined":                         {user: "alice", old: spec + asked, sent: spec + sends(true, proposed+": alice", accepts+`: "false"`)},
		"declined while somebody stands":   {user: "bob", old: spec + standsIn, sent: spec + sends(true, proposed+": bob", accepts+`: "false"`), want: kept, label: "alice"},
		"forged in the past":               {user: "alice", old: spec + asked, sent: spec + sends(true, author+": alice", standing+`: '{"generation":3,"author":"alice","acceptedAt":"2026-03-01T00:00:00Z"}'`)},
		"forged for another generation":    {user: "alice", old: spec + asked, sent: spec + sends(true, author+": alice", standing+`: '{"generation":4,"author":"alice","acceptedAt":"2026-03-02T09:00:00Z"}'`)},
		"forged by who is not asked":       {user: "bob", old: spec + asked, sent: spec + sends(true, proposed+": alice", author+": bob", standing+`: '{"generation":3,"author":"bob","acceptedAt":"2026-03-02T09:00:00Z"}'`), want: texts{proposed: "alice"}},
		"not asked, and takes it away":     {user: "bob", old: spec + asked, sent: spec + asking},
		"forged with more than is written": {user: "alice", old: spec + asked, sent: spec + sends(true, author+": alice", standing+`: '{"kind":"ReleasePlan","generation":3,"author":"alice","acceptedAt":"2026-03-02T09:00:00Z"}'`)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWebhook()
			var old *unstructured.Unstructured
			if tc.old != "" {
				old = plan(t, tc.old)
			}
			r := review(tc.user, old, plan(t, tc.sent))
			require.NoError(t, w.Mutate(t.Context(), r))
			if tc.want == nil {
				tc.want = texts{}
			}
			got := r.Object.GetAnnotations()
			if got == nil {
				got = texts{}
			}
			assert.Equal(t, tc.want, got)
			assert.Equal(t, tc.label, r.Object.GetLabels()[authorLabel])

			once := r.Object.DeepCopy()
			require.NoError(t, w.Mutate(t.Context(), r), "another webhook has it run again")
			assert.Equal(t, once, r.Object)
			r.Object.SetGeneration(generation(r))
			require.NoError(t, w.Validate(t.Context(), r))
		})
	}
}

// generation is what the API server gives to an object between the two steps.
func generation(r *admit.Review) int64 {
	if r.Old == nil {
		return 1
	}
	had, _ := json.Marshal(r.Old.Object["spec"])
	have, _ := json.Marshal(r.Object.Object["spec"])
	if string(had) != string(have) {
		return r.Old.GetGeneration() + 1
	}
	return r.Old.GetGeneration()
}

func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		user, old, sent string
		code            int32
		want            string
	}{
		"accepted by another":            {"bob", spec + asked, spec + sends(true, proposed+": alice", accepts+`: "true"`), 403, "that is alice, not bob"},
		"accepted by a robot":            {robot, spec + sends(true, proposed+": '"+robot+"'"), spec + sends(true, proposed+": '"+robot+"'", accepts+`: "true"`), 403, "only the person"},
		"accepted, nobody is proposed":   {"bob", spec + asking, spec + sends(true, accepts+`: "true"`), 403, "nobody is, not bob"},
		"accepted, another stands":       {"bob", spec + standsIn, spec + sends(true, accepts+`: "true"`), 403, "that is alice, not bob"},
		"accepted what asks for nobody":  {"alice", spec + sends(false, proposed+": alice"), spec + sends(false, proposed+": alice", accepts+`: "true"`), 403, "asks for nobody"},
		"accepted until the past":        {"alice", spec + asked, spec + sends(true, proposed+": alice", accepts+`: "2026-03-02T09:00:00Z"`), 422, "a time to come in UTC: write for example 2026-04-01T09:00:00Z"},
		"accepted until somewhere":       {"alice", spec + asked, spec + sends(true, proposed+": alice", accepts+`: "2027-03-02T09:00:00+02:00"`), 422, "in UTC"},
		"accepted in other words":        {"alice", spec + asked, spec + sends(true, proposed+": alice", accepts+`: "yes"`), 422, `"yes" is neither`},
		"taken back by another":          {"bob", spec + standsIn, spec + sends(true, accepts+`: "false"`), 403, "takes it back, and that is alice, not bob"},
		"taken back by a robot":          {robot, spec + standsIn, spec + sends(true, accepts+`: "false"`), 403, "only the person"},
		"nobody writes":                  {"", spec, spec, 403, "does not say who"},
		"labels that are no texts":       {"alice", spec, spec + "metadata: {labels: {a: 1}}\n", 422, "metadata.labels"},
		"annotations that are no object": {"alice", spec, spec + "metadata: {annotations: [a]}\n", 422, "metadata.annotations"},
		"a name that no status can show": {"alice", spec, spec + sends(true, proposed+": "+strings.Repeat("x", 4097)), 422, "more than 4096"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWebhook()
			for _, step := range []admit.Step{w.Mutate, w.Validate} {
				err := step(t.Context(), review(tc.user, plan(t, tc.old), plan(t, tc.sent)))
				var status apierrors.APIStatus
				require.ErrorAs(t, err, &status)
				assert.Equal(t, tc.code, status.Status().Code)
				assert.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestS1_WhatDiffersIsRefused(t *testing.T) {
	w := newWebhook()
	old := plan(t, spec+standsIn)
	for field, sent := range map[string]string{
		"metadata.annotations": spec + sends(true, author+": bob", standing+": '"+byAlice+"'"),
		"metadata.labels":      strings.Replace(spec+standsIn, authorLabel+": alice", authorLabel+": bob", 1),
	} {
		assert.ErrorContains(t, w.Validate(t.Context(), review("bob", old, plan(t, sent))), field)
	}
	moving := review("bob", old, plan(t, moved+asking))
	require.NoError(t, w.Mutate(t.Context(), moving))
	moving.Object.SetGeneration(5)
	assert.ErrorContains(t, w.Validate(t.Context(), moving), "spec: another admission webhook changed it")
}

func TestWarnings(t *testing.T) {
	tests := map[string]struct{ user, old, sent, want string }{
		"nobody is proposed":    {robot, "", spec + asking, "name somebody in the annotation"},
		"somebody is proposed":  {robot, spec + asking, spec + asked, "until alice runs `kubectl countersign accept releaseplan/plan -n team-a`"},
		"a robot is proposed":   {robot, spec + asking, spec + sends(true, proposed+": "+`"`+robot+`"`), "no person: propose somebody else"},
		"his word is gone":      {robot, spec + standsIn, moved + standsIn, "nobody stands for the plan"},
		"nothing changes":       {robot, spec + asking, spec + asking, ""},
		"somebody stands":       {"alice", spec + asking, moved + asking, ""},
		"it asks for nobody":    {robot, spec, moved, ""},
		"it asks nobody to any": {robot, spec + standsIn, spec, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var old *unstructured.Unstructured
			if tc.old != "" {
				old = plan(t, tc.old)
			}
			w, r := newWebhook(), review(tc.user, old, plan(t, tc.sent))
			require.NoError(t, w.Mutate(t.Context(), r))
			r.Object.SetGeneration(generation(r))
			require.NoError(t, w.Validate(t.Context(), r))
			if tc.want == "" {
				assert.Empty(t, r.Warnings)
				return
			}
			require.Len(t, r.Warnings, 1)
			assert.Contains(t, r.Warnings[0], tc.want)
		})
	}
}

// FuzzPlan holds the steps to four things, whatever is sent: they do not panic, what the first makes the second passes,
// nobody is made to stand by another, and no program ever stands. Both plans are raw JSON under what the other texts say.
func FuzzPlan(f *testing.F) {
	f.Add("alice", `{"spec":{}}`, "alice", "", "true", "", `{"spec":{}}`, "alice", "", "", "", uint8(0b111))
	f.Add("alice", `{"spec":{}}`, "", "", "false", "alice", `{"spec":{}}`, "alice", "alice", byAlice, "alice", uint8(0b111))
	f.Add(robot, `{"spec":{"a":1}}`, "", "", "", "", `{"metadata":{"generation":7}}`, "", "alice", byAlice, "alice", uint8(0b111))
	f.Add("bob", `{"spec":{}}`, "", "bob", "", `{"generation":1,"author":"bob","acceptedAt":"2026-03-02T09:00:00Z"}`, "", "", "", "", "", uint8(0b001))
	f.Add("", `{"metadata":5,"spec":[]}`, "", "", "", "", `{"metadata":{"labels":[]}}`, "", "", "", "", uint8(0b111))
	w := newWebhook()
	f.Fuzz(func(t *testing.T, user, sent, p, a, order, s, old, hadP, hadA, hadS, hadLabel string, flags uint8) {
		if !utf8.ValidString(strings.Join([]string{user, p, a, order, s, hadP, hadA, hadS, hadLabel}, " ")) {
			return // The API server sends JSON.
		}
		r := review(user, nil, fuzzed(sent, flags&1 != 0, map[string]string{proposed: p, author: a, accepts: order, standing: s}, a))
		if flags&4 != 0 {
			r = review(user, fuzzed(old, flags&2 != 0, map[string]string{proposed: hadP, author: hadA, standing: hadS}, hadLabel), r.Object)
		}
		if w.Mutate(t.Context(), r) != nil {
			return
		}
		c, err := w.changeOf(r)
		if err != nil {
			t.Fatalf("refused what it made: %v", err)
		}
		r.Object.SetGeneration(c.generation)
		if err := w.Validate(t.Context(), r); err != nil {
			t.Fatalf("refused what it made: %v", err)
		}
		got, had := r.Object.GetAnnotations()[author], c.had[author]
		if got != "" && got != had && (got != user || attribution.IsRobot(user)) {
			t.Fatalf("%q made %q stand", user, got)
		}
	})
}

func fuzzed(text string, asking bool, annotations map[string]string, label string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if json.Unmarshal([]byte(text), &u.Object) != nil || u.Object == nil {
		u.Object = map[string]any{}
	}
	if admit.Readable(u) != nil {
		return u
	}
	admit.SetAnnotations(u, annotations)
	labels := map[string]string{authorLabel: label}
	if asking {
		labels[asks] = "true"
	}
	admit.SetLabels(u, labels)
	return u
}
