package release

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

func TestS5_OnlyWhoDecidesWritesTheStatuses(t *testing.T) {
	w := newWorld(t)
	w.mayAll(alice)
	w.bind("ClusterRole", "cluster-admin", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: bob})
	eventually(t, func(ctx context.Context) error { return w.may(ctx, bob, "update", "releases", "status", true) })
	admission := &releasev1alpha1.ReleasePlanAdmission{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "admission"}}
	for _, object := range []client.Object{w.plan("plan"), w.release("release"), admission} {
		w.create(w.user(alice), object)
		for _, by := range []string{alice, bob} {
			stored := object.DeepCopyObject().(client.Object)
			require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(object), stored))
			err := w.user(by).Status().Update(t.Context(), stored)
			assert.ErrorContains(t, err, "ValidatingAdmissionPolicy 'countersign-release-status-guard'", "%T by %s", object, by)
			assert.ErrorContains(t, err, "written by the approval controller alone")
			require.NoError(t, w.admin.Status().Update(t.Context(), stored))
		}
	}
}

// withoutWebhooks takes ours away for the time of the test: then the policies are the last who look.
func withoutWebhooks(t *testing.T, w *world) {
	t.Helper()
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	key := client.ObjectKey{Name: "countersign"}
	require.NoError(t, w.admin.Get(t.Context(), key, mutating))
	require.NoError(t, w.admin.Get(t.Context(), key, validating))
	author := func(ctx context.Context) string {
		probe := w.release("probe")
		if err := w.admin.Create(ctx, probe, client.DryRunAll); err != nil {
			return err.Error()
		}
		return probe.Annotations[approvalv1alpha1.AnnotationAuthor]
	}
	wait := func(want string) {
		eventually(t, func(ctx context.Context) error {
			if got := author(ctx); got != want {
				return fmt.Errorf("the author of a Release is %q, not %q", got, want)
			}
			return nil
		})
	}
	admin := author(t.Context())
	require.NotEmpty(t, admin)
	require.NoError(t, w.admin.Delete(t.Context(), mutating.DeepCopy()))
	require.NoError(t, w.admin.Delete(t.Context(), validating.DeepCopy()))
	t.Cleanup(func() {
		mutating.ObjectMeta = metav1.ObjectMeta{Name: mutating.Name, Labels: mutating.Labels}
		validating.ObjectMeta = metav1.ObjectMeta{Name: validating.Name, Labels: validating.Labels}
		assert.NoError(t, w.admin.Create(context.Background(), mutating))
		assert.NoError(t, w.admin.Create(context.Background(), validating))
		wait(admin)
	})
	wait("")
}

// sent is one object as a client could send it to an API server whose webhooks are away.
type sent struct {
	object  client.Object
	by      string
	changes []func(client.Object)
	// refused is a part of the message; empty means that the object is accepted.
	refused string
}

func author(name string) func(client.Object) {
	return func(o client.Object) { annotate(o, approvalv1alpha1.AnnotationAuthor, name) }
}

func automatedBy(name string) func(client.Object) {
	return func(o client.Object) { annotate(o, approvalv1alpha1.AnnotationAutomated, name) }
}

func stand(text string) func(client.Object) {
	return func(o client.Object) { annotate(o, approvalv1alpha1.AnnotationStanding, text) }
}

func accept(text string) func(client.Object) {
	return func(o client.Object) { annotate(o, approvalv1alpha1.AnnotationAccept, text) }
}

func without(names ...string) func(client.Object) {
	return func(o client.Object) {
		annotations := o.GetAnnotations()
		for _, name := range names {
			delete(annotations, name)
		}
		o.SetAnnotations(annotations)
	}
}

// send tries the object out as a new one if it is called new, and as a change of the stored one otherwise.
func (w *world) send(s *sent) error {
	w.t.Helper()
	object := s.object.DeepCopyObject().(client.Object)
	isNew := object.GetName() == "new"
	if !isNew {
		require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(object), object))
	}
	for _, change := range s.changes {
		change(object)
	}
	by := w.user(s.by)
	if s.by == controllerUser {
		by = w.decider()
	}
	if isNew {
		return by.Create(w.t.Context(), object, client.DryRunAll)
	}
	return by.Update(w.t.Context(), object, client.DryRunAll)
}

// holds tries all of them out against the policy of the record.
func (w *world) holds(t *testing.T, tests map[string]sent) {
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := w.send(&tc)
			if tc.refused == "" {
				require.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, "ValidatingAdmissionPolicy 'countersign-release-attribution'")
			assert.ErrorContains(t, err, tc.refused)
		})
	}
}

// accepted is when somebody gave his word for a plan.
var accepted = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// word is what admission writes on a plan for which somebody stands.
func word(name string, generation int64, edits ...func(*attribution.Standing)) func(client.Object) {
	s := attribution.Standing{Generation: generation, Author: name, AcceptedAt: accepted}
	for _, edit := range edits {
		edit(&s)
	}
	return stand(s.String())
}

// on is what admission writes on a Release that names the plan.
func on(p plan, edits ...func(*attribution.Standing)) func(client.Object) {
	s := attribution.Standing{Kind: releasev1alpha1.KindReleasePlan, Namespace: p.Namespace, Name: p.Name, UID: p.UID, Generation: p.Generation}
	for _, edit := range edits {
		edit(&s)
	}
	return stand(s.String())
}

// standsFor adds who stands for the plan.
func standsFor(name string) func(*attribution.Standing) {
	return func(s *attribution.Standing) { s.Author, s.AcceptedAt = name, accepted }
}

func TestS1_TheRecordCannotBeForgedWithoutTheWebhooks(t *testing.T) {
	w := newWorld(t)
	w.bind("ClusterRole", "countersign-release-manager", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: controllerAccount})
	p := w.plan("plan", w.asking)
	w.create(w.user(alice), p)
	mine, automated := w.release("mine"), w.release("automated", w.automated)
	w.create(w.user(alice), mine)
	w.create(w.user(integration), automated)
	withoutWebhooks(t, w)
	t.Run("new Releases", func(t *testing.T) { w.holds(t, w.newReleases(p)) })
	t.Run("stored Releases", func(t *testing.T) { w.holds(t, storedReleases(mine, automated)) })
	t.Run("new plans", func(t *testing.T) { w.holds(t, w.newPlans()) })
	t.Run("stored plans", func(t *testing.T) { w.holds(t, storedPlans(p)) })
}

func (w *world) newReleases(p plan) map[string]sent {
	const (
		others  = "nobody but who makes it"
		persons = "only service accounts"
		stands  = "says on a new Release which plan it names"
	)
	release := w.release("new")
	expires := accepted.Add(1)
	full := func(s *attribution.Standing) { s.ExpiresAt, s.Admission = &expires, "admission" }
	return map[string]sent{
		"nobody":                       {release, alice, nil, ""},
		"oneself":                      {release, alice, changes(author(alice)), ""},
		"another":                      {release, alice, changes(author(bob)), others},
		"automated":                    {release, robot, changes(automatedBy(robot)), ""},
		"automated by another":         {release, robot, changes(automatedBy(integration)), others},
		"automated by a person":        {release, alice, changes(automatedBy(alice)), persons},
		"both":                         {release, robot, changes(automatedBy(robot), author(robot)), others},
		"its plan":                     {release, alice, changes(on(p)), ""},
		"its plan with its admission":  {release, alice, changes(on(p, func(s *attribution.Standing) { s.Admission = "a_b.C" })), ""},
		"oneself and the plan":         {release, alice, changes(author(alice), on(p)), ""},
		"another and the plan":         {release, alice, changes(author(bob), on(p)), others},
		"automated and the plan":       {release, robot, changes(automatedBy(robot), on(p)), ""},
		"automated and who stands":     {release, robot, changes(automatedBy(robot), on(p, standsFor(alice))), ""},
		"automated and all of it":      {release, robot, changes(automatedBy(robot), on(p, standsFor(alice), full)), ""},
		"who stands":                   {release, bob, changes(on(p, standsFor(alice))), stands},
		"who stands, by himself":       {release, alice, changes(on(p, standsFor(alice))), stands},
		"oneself and who stands":       {release, bob, changes(author(bob), on(p, standsFor(alice))), stands},
		"another and who stands":       {release, bob, changes(author(alice), on(p, standsFor(alice))), others},
		"a robot and who stands":       {release, robot, changes(on(p, standsFor(alice))), stands},
		"by another and who stands":    {release, robot, changes(automatedBy(integration), on(p, standsFor(alice))), others},
		"by a person and who stands":   {release, bob, changes(automatedBy(bob), on(p, standsFor(alice))), persons},
		"all three":                    {release, robot, changes(automatedBy(robot), author(robot), on(p, standsFor(alice))), others},
		"another plan":                 {release, alice, changes(on(w.plan("other"))), stands},
		"a plan of elsewhere":          {release, alice, changes(on(p, func(s *attribution.Standing) { s.Namespace = "other" })), stands},
		"another kind":                 {release, alice, changes(on(p, func(s *attribution.Standing) { s.Kind = "Plan" })), stands},
		"no generation":                {release, alice, changes(on(p, func(s *attribution.Standing) { s.Generation = 0 })), stands},
		"nothing":                      {release, alice, changes(stand("{}")), stands},
		"no JSON":                      {release, alice, changes(stand("plan")), stands},
		"an author that only Go reads": {release, bob, changes(written(p, `,"Author":"`+alice+`","acceptedAt":"2026-03-02T09:00:00Z"`)), stands},
		"an author in escapes":         {release, bob, changes(written(p, `,"\u0061uthor":"`+alice+`","acceptedAt":"2026-03-02T09:00:00Z"`)), stands},
		"an author after a space":      {release, bob, changes(written(p, `, "author":"`+alice+`","acceptedAt":"2026-03-02T09:00:00Z"`)), stands},
		"two plans":                    {release, alice, changes(written(p, `,"uid":"another"`)), stands},
	}
}

// changes spares the type.
func changes(all ...func(client.Object)) []func(client.Object) { return all }

// written is what a Release stands on, with more at its end.
func written(p plan, more string) func(client.Object) {
	return func(o client.Object) {
		on(p)(o)
		text := o.GetAnnotations()[approvalv1alpha1.AnnotationStanding]
		stand(strings.TrimSuffix(text, "}") + more + "}")(o)
	}
}

func storedReleases(mine, automated aRelease) map[string]sent {
	const changed = "cannot be changed"
	return map[string]sent{
		"noise":                        {mine, bob, changes(noted), ""},
		"another":                      {mine, bob, changes(author(bob)), changed},
		"nobody":                       {mine, alice, changes(without(approvalv1alpha1.AnnotationAuthor)), changed},
		"no plan":                      {mine, alice, changes(without(approvalv1alpha1.AnnotationStanding)), changed},
		"nothing":                      {mine, alice, changes(dropped), changed},
		"another plan":                 {mine, alice, changes(stand("{}")), changed},
		"automated later":              {mine, alice, changes(automatedBy(alice)), changed},
		"automated later by a program": {mine, robot, changes(automatedBy(robot), without(approvalv1alpha1.AnnotationAuthor)), changed},
		"all three":                    {mine, robot, changes(automatedBy(robot), author(robot), stand("{}")), changed},
		"of a program: noise":          {automated, bob, changes(noted), ""},
		"of a program: another plan":   {automated, bob, changes(stand("{}")), changed},
		"of a program: another":        {automated, robot, changes(automatedBy(robot)), changed},
		"of a program: not any more":   {automated, bob, changes(without(approvalv1alpha1.AnnotationAutomated), author(bob)), changed},
		"of a program: laundered":      {automated, bob, changes(author(bob)), changed},
		"of a program: copied by him":  {automated, alice, changes(author(alice)), changed},
		"of a program: copied":         {automated, controllerUser, changes(author(alice)), ""},
		"of a program: miscopied":      {automated, controllerUser, changes(author(bob)), changed},
		"of a program: half a copy":    {automated, controllerUser, changes(author("alice")), changed},
	}
}

func noted(o client.Object) { annotate(o, "x", "y") }

func dropped(o client.Object) { o.SetAnnotations(nil) }

func (w *world) newPlans() map[string]sent {
	const (
		others   = "nobody is made to stand"
		together = "written together"
		// A name that JSON writes in escapes.
		odd = `o"neill \u0061 \`
		// A name that looks like the end of another.
		forger = alice + `","acceptedAt":"2026-03-02T09:00:00Z`
	)
	plan := w.plan("new")
	expires := accepted.Add(1)
	full := func(s *attribution.Standing) { s.ExpiresAt, s.Admission = &expires, "a_b.C" }
	return map[string]sent{
		"nobody":                   {plan, alice, nil, ""},
		"oneself":                  {plan, alice, changes(author(alice), word(alice, 1)), ""},
		"oneself, all of it":       {plan, alice, changes(author(alice), word(alice, 1, full)), ""},
		"an odd name":              {plan, odd, changes(author(odd), word(odd, 1)), ""},
		"the author alone":         {plan, alice, changes(author(alice)), together},
		"the word alone":           {plan, alice, changes(word(alice, 1)), together},
		"another":                  {plan, alice, changes(author(bob)), others},
		"another's word":           {plan, bob, changes(word(alice, 1)), together},
		"another and his word":     {plan, bob, changes(author(alice), word(alice, 1)), others},
		"oneself, another's word":  {plan, bob, changes(author(bob), word(alice, 1)), together},
		"another, one's word":      {plan, bob, changes(author(alice), word(bob, 1)), others},
		"a robot":                  {plan, robot, changes(author(robot), word(robot, 1)), others},
		"a shared name":            {plan, "kubernetes-super-admin", changes(author("kubernetes-super-admin"), word("kubernetes-super-admin", 1)), others},
		"a robot, another's word":  {plan, robot, changes(author(alice), word(alice, 1)), others},
		"for what is to come":      {plan, alice, changes(author(alice), word(alice, 2)), together},
		"for anything":             {plan, alice, changes(author(alice), word(alice, 0)), together},
		"without a time":           {plan, alice, changes(author(alice), stand(`{"generation":1,"author":"`+alice+`"}`)), together},
		"nothing":                  {plan, alice, changes(author(alice), stand("{}")), together},
		"twice":                    {plan, bob, changes(author(bob), stand(`{"generation":1,"author":"`+bob+`","acceptedAt":"2026-03-02T09:00:00Z","author":"`+alice+`"}`)), together},
		"twice, the other way":     {plan, bob, changes(author(bob), stand(`{"generation":1,"author":"`+alice+`","author":"`+bob+`","acceptedAt":"2026-03-02T09:00:00Z"}`)), together},
		"a name with another's":    {plan, forger, changes(author(forger), word(alice, 1)), together},
		"a name with its own":      {plan, forger, changes(author(forger), word(forger, 1)), ""},
		"automated":                {plan, robot, changes(automatedBy(robot)), "says nothing on a plan"},
		"automated, and another":   {plan, robot, changes(automatedBy(robot), author(alice), word(alice, 1)), others},
		"accepted":                 {plan, alice, changes(accept("true")), "was not taken up"},
		"accepted by another's":    {plan, bob, changes(accept("true"), author(alice), word(alice, 1)), others},
		"accepted, and one's word": {plan, alice, changes(accept("true"), author(alice), word(alice, 1)), "was not taken up"},
	}
}

func storedPlans(p plan) map[string]sent {
	const (
		others   = "nobody is made to stand"
		together = "written together"
	)
	return map[string]sent{
		"noise":                    {p, bob, changes(noted), ""},
		"another":                  {p, bob, changes(author("carol")), others},
		"another and his word":     {p, bob, changes(author("carol"), word("carol", p.Generation)), others},
		"the author alone":         {p, bob, changes(author(bob)), together},
		"the word alone":           {p, bob, changes(word(bob, p.Generation)), together},
		"another word of hers":     {p, bob, changes(word(alice, p.Generation)), together},
		"her word, by herself":     {p, alice, changes(word(alice, p.Generation)), ""},
		"no word":                  {p, bob, changes(without(approvalv1alpha1.AnnotationStanding)), together},
		"a word of nobody":         {p, bob, changes(without(approvalv1alpha1.AnnotationAuthor)), together},
		"nothing":                  {p, bob, changes(stand("{}")), together},
		"taken over":               {p, bob, changes(author(bob), word(bob, p.Generation)), ""},
		"taken over for later":     {p, bob, changes(author(bob), word(bob, p.Generation+1)), together},
		"taken over with a spec":   {p, bob, changes(elsewhere, author(bob), word(bob, p.Generation+1)), ""},
		"before a spec":            {p, bob, changes(elsewhere, author(bob), word(bob, p.Generation)), together},
		"taken over by a robot":    {p, robot, changes(author(robot), word(robot, p.Generation)), others},
		"automated":                {p, robot, changes(automatedBy(robot)), "says nothing on a plan"},
		"automated, and of nobody": {p, robot, changes(dropped, automatedBy(robot)), "says nothing on a plan"},
		"taken back":               {p, alice, changes(dropped, accept("false")), ""},
		"accepted":                 {p, bob, changes(accept("true")), "was not taken up"},
	}
}

func elsewhere(o client.Object) { o.(plan).Spec.Target = "elsewhere" }

// Where the kinds are ours, what a Release was made with is held fast as well.
func TestThePolicyOfOurReleasesHoldsWithoutTheWebhooks(t *testing.T) {
	w := newWorld(t)
	r := w.release("release")
	w.create(w.user(alice), r)
	withoutWebhooks(t, w)
	require.NoError(t, w.send(&sent{object: r, by: bob, changes: changes(noted)}))
	err := w.send(&sent{object: r, by: bob, changes: changes(func(o client.Object) {
		o.(aRelease).Spec.Data = &runtime.RawExtension{Raw: []byte(`{"to":"us"}`)}
	})})
	assert.ErrorContains(t, err, "ValidatingAdmissionPolicy 'countersign-release-immutability'")
	assert.ErrorContains(t, err, "a Release cannot be changed")
}
