package pairing

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

func admission(name string, change ...func(*releasev1alpha1.ReleasePlanAdmission)) releasev1alpha1.ReleasePlanAdmission {
	a := releasev1alpha1.ReleasePlanAdmission{
		ObjectMeta: metav1.ObjectMeta{Namespace: "managed", Name: name},
		Spec:       releasev1alpha1.ReleasePlanAdmissionSpec{Applications: []string{"shop"}, Origin: "tenant"},
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

func plan(change ...func(*releasev1alpha1.ReleasePlan)) *releasev1alpha1.ReleasePlan {
	p := &releasev1alpha1.ReleasePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "prod"},
		Spec:       releasev1alpha1.ReleasePlanSpec{Application: "shop", Target: "managed"},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func otherOrigin(a *releasev1alpha1.ReleasePlanAdmission) { a.Spec.Origin = "elsewhere" }

func otherContent(a *releasev1alpha1.ReleasePlanAdmission) { a.Spec.Applications = []string{"else"} }

func going(a *releasev1alpha1.ReleasePlanAdmission) {
	now := metav1.Now()
	a.DeletionTimestamp = &now
}

func TestFind(t *testing.T) {
	words := attribution.Default()
	labelled := func(name string) func(*releasev1alpha1.ReleasePlan) {
		return func(p *releasev1alpha1.ReleasePlan) { p.Labels = map[string]string{words.AdmissionLabel: name} }
	}
	group := func(p *releasev1alpha1.ReleasePlan) { p.Spec.Application, p.Spec.ComponentGroup = "", "web" }
	groups := func(a *releasev1alpha1.ReleasePlanAdmission) {
		a.Spec.Applications, a.Spec.ComponentGroups = nil, []string{"web"}
	}
	type admissions = []releasev1alpha1.ReleasePlanAdmission
	tests := map[string]struct {
		plan        *releasev1alpha1.ReleasePlan
		admissions  admissions
		want        string
		wantProblem string
	}{
		"the one that lists it":          {plan(), admissions{admission("a", otherContent), admission("b"), admission("c", otherOrigin)}, "b", ""},
		"component group":                {plan(group), admissions{admission("a"), admission("b", groups)}, "b", ""},
		"none":                           {plan(), admissions{admission("a", otherContent)}, "", "no ReleasePlanAdmission in namespace managed lets the application shop of namespace tenant in"},
		"of another origin":              {plan(), admissions{admission("a", otherOrigin)}, "", "no ReleasePlanAdmission"},
		"going away":                     {plan(), admissions{admission("a", going)}, "", "no ReleasePlanAdmission"},
		"several":                        {plan(), admissions{admission("b"), admission("a")}, "", "let the application shop of namespace tenant in (a, b): leave one"},
		"no target":                      {plan(func(p *releasev1alpha1.ReleasePlan) { p.Spec.Target = "" }), nil, "", "names no target"},
		"nothing to release":             {plan(func(p *releasev1alpha1.ReleasePlan) { p.Spec.Application = "" }), admissions{admission("a")}, "", "says nothing to release"},
		"named":                          {plan(labelled("b")), admissions{admission("a"), admission("b", otherContent)}, "b", ""},
		"named, of another origin":       {plan(labelled("b")), admissions{admission("a"), admission("b", otherOrigin)}, "", "lets nothing of namespace tenant in"},
		"named, but absent":              {plan(labelled("b")), admissions{admission("a")}, "", "there is no ReleasePlanAdmission managed/b"},
		"named, going away":              {plan(labelled("b")), admissions{admission("b", going)}, "", "there is no ReleasePlanAdmission managed/b"},
		"empty origin lets nobody in":    {plan(), admissions{admission("a", func(a *releasev1alpha1.ReleasePlanAdmission) { a.Spec.Origin = "" })}, "", "no ReleasePlanAdmission"},
		"empty name matches no list":     {plan(group), admissions{admission("a", func(a *releasev1alpha1.ReleasePlanAdmission) { a.Spec.Applications = []string{""} })}, "", "no ReleasePlanAdmission"},
		"application before group named": {plan(func(p *releasev1alpha1.ReleasePlan) { p.Spec.ComponentGroup = "web" }), admissions{admission("a", groups)}, "a", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			found, problem := Find(words, tc.plan, tc.admissions)
			if tc.want == "" {
				require.Nil(t, found)
				assert.Contains(t, problem, tc.wantProblem)
				return
			}
			require.NotNil(t, found, problem)
			assert.Equal(t, tc.want, found.Name)
			assert.Empty(t, problem)
		})
	}
}

func TestManyMatchesAreNotAllNamed(t *testing.T) {
	var many []releasev1alpha1.ReleasePlanAdmission
	for i := range maxNamed + 1 {
		many = append(many, admission(fmt.Sprintf("a%d", i)))
	}
	_, problem := Find(attribution.Default(), plan(), many)
	assert.Contains(t, problem, "a7, others)")
}

func TestBlocked(t *testing.T) {
	words := attribution.Default()
	for value, want := range map[string]bool{"true": true, "false": false, "": false, "TRUE": false} {
		a := admission("a")
		a.Labels = map[string]string{words.BlockReleasesLabel: value}
		assert.Equal(t, want, Blocked(words, &a), value)
	}
}

// Whatever Find says of all admissions, it says of the candidates.
func TestCandidatesAreAllThatMatters(t *testing.T) {
	words := attribution.Default()
	app := func(name string) func(*releasev1alpha1.ReleasePlanAdmission) {
		return func(a *releasev1alpha1.ReleasePlanAdmission) { a.Spec.Applications = []string{name} }
	}
	groups := func(a *releasev1alpha1.ReleasePlanAdmission) { a.Spec.ComponentGroups = []string{"web"} }
	elsewhere := admission("e")
	elsewhere.Namespace = "other"
	all := []releasev1alpha1.ReleasePlanAdmission{
		admission("a"), admission("b", app("both"), groups), admission("c", otherOrigin, app("alone")), admission("d", otherOrigin), admission("x", app("web")),
	}
	scheme := runtime.NewScheme()
	require.NoError(t, releasev1alpha1.AddToScheme(scheme))
	builder := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&releasev1alpha1.ReleasePlanAdmission{}, "keys", Keys).WithObjects(&elsewhere)
	for i := range all {
		builder = builder.WithObjects(all[i].DeepCopy())
	}
	reader := builder.Build()
	released := func(application, group string) func(*releasev1alpha1.ReleasePlan) {
		return func(p *releasev1alpha1.ReleasePlan) { p.Spec.Application, p.Spec.ComponentGroup = application, group }
	}
	labelled := func(name string) func(*releasev1alpha1.ReleasePlan) {
		return func(p *releasev1alpha1.ReleasePlan) { p.Labels = map[string]string{words.AdmissionLabel: name} }
	}
	for name, tc := range map[string]struct {
		plan *releasev1alpha1.ReleasePlan
		want int
	}{
		"application":              {plan(), 1},
		"group":                    {plan(released("", "web")), 1},
		"both, by one admission":   {plan(released("both", "web")), 1},
		"both, by two admissions":  {plan(released("shop", "web")), 2},
		"of the same name":         {plan(released("web", "web")), 2},
		"none":                     {plan(released("alone", "")), 0},
		"nothing":                  {plan(released("", "")), 0},
		"named":                    {plan(labelled("a")), 1},
		"named, of another origin": {plan(labelled("d")), 1},
		"named, but absent":        {plan(labelled("none")), 0},
		"named in another target":  {plan(labelled("e")), 0},
		"no target":                {plan(func(p *releasev1alpha1.ReleasePlan) { p.Spec.Target = "" }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			some, err := Candidates(t.Context(), reader, "keys", words, tc.plan)
			require.NoError(t, err)
			assert.Len(t, some, tc.want)
			found, problem := Find(words, tc.plan, some)
			want, wantProblem := Find(words, tc.plan, all)
			assert.Equal(t, wantProblem, problem)
			if want != nil && assert.NotNil(t, found) {
				assert.Equal(t, want.Name, found.Name)
				assert.True(t, Means(words, tc.plan, found))
			}
			for i := range some {
				assert.True(t, Means(words, tc.plan, &some[i]))
			}
		})
	}
	some, err := Candidates(t.Context(), reader, "", words, plan())
	require.NoError(t, err)
	assert.Len(t, some, len(all), "without an index, one that is not known might be there")
	assert.False(t, Means(words, plan(), &elsewhere))
}
