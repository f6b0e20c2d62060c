package release

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// raw writes bytes as they are, which no client library would.
func (w *world) raw(name, resource, body string) error {
	w.t.Helper()
	config := rest.CopyConfig(cluster.Admin())
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	config.APIPath, config.GroupVersion = "/apis", &schema.GroupVersion{Group: "appstudio.redhat.com", Version: "v1alpha1"}
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c, err := rest.RESTClientFor(config)
	require.NoError(w.t, err)
	return c.Post().Namespace(w.namespace).Resource(resource).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(w.t.Context()).Error()
}

// Whatever parser sees another key first, the author is who sent it.
func TestS1_KeysThatParsersReadDifferentlyForgeNothing(t *testing.T) {
	w := newWorld(t)
	w.create(w.user(alice), w.plan("plan", w.asking))
	const forged = `"attribution.alaudadevops.io/author":"alice@example.com","attribution.alaudadevops.io/automated-by":"` + integration + `","attribution.alaudadevops.io/standing":"{\"author\":\"alice@example.com\"}"`
	annotations, labels := `{`+forged+`}`, `{"`+w.words.AutomatedLabel+`":"true","`+w.words.AuthorLabel+`":"alice"}`
	for i, metadata := range []string{
		`"metadata":{"name":"%s","annotations":{},"annotations":` + annotations + `}`,
		`"metadata":{"name":"%s","annotations":` + annotations + `,"annotations":null}`,
		`"metadata":{"name":"%s","Annotations":` + annotations + `,"Labels":` + labels + `}`,
		`"metadata":{"name":"%s","ANNOTATIONS":` + annotations + `,"annotations":{},"labels":{},"lAbels":` + labels + `}`,
		`"Metadata":{"labels":` + labels + `,"annotations":` + annotations + `},"metadata":{"name":"%s"}`,
		`"metadata":{"name":"nobody"},"metadata":{"name":"%s","annotations":` + annotations + `}`,
		`"metadata":{"name":"%s","annotations":{"attribution.alaudadevops.io\/author":"alice@example.com","attribution.alaudadevops.io\u002fauthor":"alice@example.com"}}`,
		`"metadata":{"name":"%s","annotations":` + annotations + `},"status":{"attribution":{"author":"alice@example.com","verified":true,"verifiedAt":"2026-01-01T00:00:00Z"}}`,
		`"metadata":{"name":"%s","generation":7,"uid":"mine","managedFields":[{"manager":"x","operation":"Apply","apiVersion":"appstudio.redhat.com/v1alpha1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{}}}],"annotations":` + annotations + `}`,
	} {
		name := fmt.Sprintf("odd-%d", i)
		err := w.raw(bob, "releases", `{"apiVersion":"appstudio.redhat.com/v1alpha1","kind":"Release",`+fmt.Sprintf(metadata, name)+`,"spec":{"releasePlan":"plan","snapshot":"s"},"Spec":{"releasePlan":"other"}}`)
		if err != nil {
			t.Logf("%s is refused: %v", metadata, err)
			continue
		}
		stored := &releasev1alpha1.Release{}
		require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, stored))
		got := w.record(stored)
		assert.Equal(t, bob, got.author, metadata)
		assert.Empty(t, got.automated, metadata)
		assert.Empty(t, got.automatedLabel, metadata)
		assert.NotContains(t, got.standing, alice, metadata)
		all, err := json.Marshal(stored)
		require.NoError(t, err)
		assert.NotContains(t, strings.ReplaceAll(string(all), bob, ""), alice, metadata)

		require.NoError(t, w.raw(robot, "releaseplans", `{"apiVersion":"appstudio.redhat.com/v1alpha1","kind":"ReleasePlan",`+
			strings.ReplaceAll(fmt.Sprintf(metadata, name), `"`+w.words.AutomatedLabel+`"`, `"`+w.words.StandingLabel+`"`)+`,"spec":{"target":"managed"}}`), metadata)
		plan := &releasev1alpha1.ReleasePlan{}
		require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, plan))
		assert.Empty(t, w.record(plan).author, metadata)
		assert.Empty(t, w.record(plan).standing, metadata)
	}
}

// The robot's and the person's halves of a word do not make one, in whatever order they are said.
func TestS4_PiecesOfAWordMakeNone(t *testing.T) {
	w := newWorld(t)
	for name, steps := range map[string][]struct {
		by     string
		change func(plan)
	}{
		"the label goes and comes back": {{robot, func(p plan) { delete(p.Labels, w.words.StandingLabel) }}, {robot, func(p plan) { w.asking(p) }}},
		"the spec goes and comes back":  {{robot, retarget("other")}, {robot, retarget("managed")}},
		"the admission goes and comes back": {
			{robot, func(p plan) { w.label(p, w.words.AdmissionLabel, "b") }},
			{robot, func(p plan) { delete(p.Labels, w.words.AdmissionLabel) }},
		},
		"all at once": {{robot, func(p plan) {
			retarget("other")(p)
			w.label(p, w.words.AdmissionLabel, "b")
			p.Labels[w.words.StandingLabel] = "false"
		}},
			{robot, func(p plan) { retarget("managed")(p); delete(p.Labels, w.words.AdmissionLabel); w.asking(p) }}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.plan("plan", w.asking)
			w.create(w.user(alice), p)
			word := reread(w, p).Annotations
			for _, step := range steps {
				require.NoError(t, edit(w, w.user(step.by), p, step.change))
			}
			w.stands(p, "")
			require.NoError(t, edit(w, w.user(robot), p, func(p plan) { p.Annotations = word }), "her word is sent again")
			w.stands(p, "")
		})
	}
}

// One object that Go cannot read would stop the watch of all, for everybody.
func TestS9_NobodyMakesAnObjectThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	n := 0
	try := func(resource, kind, spec string) {
		n++
		body := fmt.Sprintf(`{"apiVersion":"appstudio.redhat.com/v1alpha1","kind":%q,"metadata":{"name":"n-%d"},"spec":%s}`, kind, n, spec)
		if err := w.raw(alice, resource, body); err != nil {
			t.Logf("%s is refused: %v", body, err)
		}
	}
	for _, number := range []string{"2147483648", "9007199254740993", "1e3", "1e30", "1.0", "-1", "null", `"1"`} {
		try("releases", "Release", `{"releasePlan":"plan","snapshot":"s","gracePeriodDays":`+number+`}`)
		try("releaseplans", "ReleasePlan", `{"target":"managed","releaseGracePeriodDays":`+number+`}`)
		try("releaseplanadmissions", "ReleasePlanAdmission", `{"origin":"x","applications":["a"],"pipeline":{"maxRetries":`+number+`,"pipelineRef":{"name":"x"}}}`)
	}
	for _, text := range []string{"1h", "99999h99999h99999h99999h", "1.5h", "1us", "-1h", "", "1h ", `1h\n`, "1d", "1h1"} {
		try("releaseplanadmissions", "ReleasePlanAdmission", `{"origin":"x","applications":["a"],"pipeline":{"timeouts":{"tasks":"`+text+`"},"pipelineRef":{"name":"x"}}}`)
	}
	for _, list := range []client.ObjectList{&releasev1alpha1.ReleaseList{}, &releasev1alpha1.ReleasePlanList{}, &releasev1alpha1.ReleasePlanAdmissionList{}} {
		require.NoError(t, w.admin.List(t.Context(), list))
		assert.NotZero(t, apimeta.LenList(list))
	}
}
