package rule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
	"github.com/AlaudaDevops/countersign/pkg/webhook/asked"
)

var now = time.Date(2025, 1, 2, 0, 0, 0, 0, time.UTC)

type access struct {
	refuse bool
	err    error
	asked  []string
}

func (a *access) Allowed(_ context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (bool, string, error) {
	a.asked = append(a.asked, fmt.Sprintf("%s %s %s %s/%s", user.Username, attrs.Verb, attrs.Resource, attrs.Namespace, attrs.Name))
	return !a.refuse, "", a.err
}

type harness struct {
	t       *testing.T
	access  *access
	webhook *Webhook
	// dryRun is what the API server says to a check that is tried.
	dryRun error
	// cache fails lists if set.
	cache error
}

func newHarness(t *testing.T, objects ...client.Object) *harness {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, approvalv1alpha1.AddToScheme(scheme))
	require.NoError(t, connectorsv1alpha1.AddToScheme(scheme))
	h := &harness{t: t, access: &access{}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&approvalv1alpha1.ResourceCheckRequest{}, asked.IndexObject, asked.ByObject).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				require.Equal(t, []client.CreateOption{client.DryRunAll}, opts)
				require.Equal(t, "prod", o.GetNamespace())
				return h.dryRun
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if h.cache != nil {
					return h.cache
				}
				return c.List(ctx, list, opts...)
			},
		}).Build()
	registry := &checks.Registry{}
	kind := &approvalv1alpha1.CheckKind{ObjectMeta: metav1.ObjectMeta{Name: "approvalrequest.approval.alaudadevops.io", Generation: 1}}
	kind.Spec.APIVersion, kind.Spec.Kind = "approval.alaudadevops.io/v1alpha1", "ApprovalRequest"
	kind.Status.Conditions = []metav1.Condition{{Type: approvalv1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
	registry.Set(kind)
	h.webhook = New(Deps{Clock: clocktesting.NewFakePassiveClock(now), Live: c, Cache: c, Trial: c, Registry: registry, Access: h.access})
	return h
}

func ruleWith(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := parse(t, `
apiVersion: approval.alaudadevops.io/v1alpha1
kind: ResourceCheckRule
metadata: {namespace: prod, name: push}
spec:
  objectRef: {apiVersion: connectors.alaudadevops.io/v1alpha1, kind: Connector, name: harbor}
  checkTemplate: {apiVersion: approval.alaudadevops.io/v1alpha1, kind: ApprovalRequest, spec: {policies: []}}
`)
	merge(u.Object, parse(t, text).Object)
	return u
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	return u
}

func merge(into, from map[string]any) {
	for key, value := range from {
		inner, isObject := value.(map[string]any)
		if there, ok := into[key].(map[string]any); ok && isObject {
			merge(there, inner)
			continue
		}
		into[key] = value
	}
}

func wire(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	if u == nil {
		return nil
	}
	data, err := json.Marshal(u)
	require.NoError(t, err)
	read := &unstructured.Unstructured{}
	require.NoError(t, read.UnmarshalJSON(data))
	return read
}

// write runs both steps; old is nil on create.
func (h *harness) write(u, old *unstructured.Unstructured, between ...func(*unstructured.Unstructured)) (*unstructured.Unstructured, []string, error) {
	h.t.Helper()
	r := &admit.Review{
		Caller: admit.CallerOf(authenticationv1.UserInfo{Username: "olga"}), Operation: admissionv1.Create, Namespace: "prod",
		Object: wire(h.t, u), Old: wire(h.t, old),
	}
	if old != nil {
		r.Operation = admissionv1.Update
	}
	if err := h.webhook.Mutate(h.t.Context(), r); err != nil {
		return nil, nil, err
	}
	r.Object = wire(h.t, r.Object)
	for _, change := range between {
		change(r.Object)
	}
	err := h.webhook.Validate(h.t.Context(), r)
	return r.Object, r.Warnings, err
}

func TestReferenceAndLabelsAreCompleted(t *testing.T) {
	h := newHarness(t)
	u, warnings, err := h.write(ruleWith(t, `{metadata: {labels: {mine: kept, approval.alaudadevops.io/objectName: forged}}, spec: {objectRef: {uid: forged}}}`), nil)
	require.NoError(t, err)
	assert.Empty(t, warnings)
	ref, _, _ := unstructured.NestedStringMap(u.Object, "spec", "objectRef")
	assert.Equal(t, map[string]string{"apiVersion": "connectors.alaudadevops.io/v1alpha1", "kind": "Connector", "name": "harbor", "namespace": "prod"}, ref)
	assert.Equal(t, map[string]string{"mine": "kept", approvalv1alpha1.LabelObjectKind: "Connector", approvalv1alpha1.LabelObjectName: "harbor"}, u.GetLabels())
	assert.Equal(t, []string{"olga use checkkinds prod/approvalrequest.approval.alaudadevops.io"}, h.access.asked)

	again, _, err := h.write(ruleWith(t, `{}`), u)
	require.NoError(t, err)
	assert.Equal(t, "prod", again.Object["spec"].(map[string]any)["objectRef"].(map[string]any)["namespace"], "an update that leaves it out succeeds")
}

func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		rule   string
		access access
		want   string
	}{
		"foreign namespace":   {rule: `{spec: {objectRef: {namespace: other}}}`, want: "spec.objectRef.namespace"},
		"unreadable pattern":  {rule: `{spec: {when: {http: {paths: ["/a//b"]}}}}`, want: "spec.when.http"},
		"unreadable method":   {rule: `{spec: {when: {http: {methods: ["*"]}}}}`, want: "spec.when.http"},
		"empty grant":         {rule: `{spec: {grant: {maxDuration: 0h}}}`, want: "spec.grant.maxDuration"},
		"mistyped":            {rule: `{spec: {objectRef: {name: 1}}}`, want: "objectRef.name"},
		"without the right":   {rule: `{}`, access: access{refuse: true}, want: `you lack the verb "use" on checkkinds approvalrequest.approval.alaudadevops.io`},
		"nobody can tell":     {rule: `{}`, access: access{err: errors.New("away")}, want: "try again"},
		"another kind's name": {rule: `{spec: {checkTemplate: {apiVersion: v1, kind: ConfigMap}}}`, access: access{refuse: true}, want: "configmap.core"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.access = &tc.access
			h.webhook.Access = h.access
			_, _, err := h.write(ruleWith(t, tc.rule), nil)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestS5_OwnersOfARuleAreGainedByWhoMayDeleteIt(t *testing.T) {
	owned := `{metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: "%s"}]}}`
	had := ruleWith(t, fmt.Sprintf(owned, "1"))
	h := newHarness(t)
	old, _, err := h.write(had, nil)
	require.NoError(t, err)

	h.access.asked = nil
	_, _, err = h.write(ruleWith(t, fmt.Sprintf(owned, "2")), old)
	require.NoError(t, err)
	assert.Equal(t, []string{"olga delete resourcecheckrules prod/push"}, h.access.asked)

	h.access.refuse = true
	_, _, err = h.write(ruleWith(t, fmt.Sprintf(owned, "2")), old)
	require.ErrorContains(t, err, "added to only by who may delete it")
	_, _, err = h.write(ruleWith(t, fmt.Sprintf(owned, "1")), old)
	require.NoError(t, err, "what it had stays")
	_, _, err = h.write(ruleWith(t, `{}`), old)
	require.NoError(t, err, "garbage collection takes owners off")
	h.access.err = errors.New("away")
	_, _, err = h.write(ruleWith(t, fmt.Sprintf(owned, "2")), old)
	require.ErrorContains(t, err, "try again")
}

func TestLabelsAloneNeedNoRight(t *testing.T) {
	h := newHarness(t)
	old, _, err := h.write(ruleWith(t, `{}`), nil)
	require.NoError(t, err)
	h.access.refuse = true
	_, warnings, err := h.write(ruleWith(t, `{metadata: {labels: {team: a}, annotations: {note: b}}}`), old)
	require.NoError(t, err)
	assert.Empty(t, warnings)
	_, _, err = h.write(ruleWith(t, `{spec: {grant: {maxDuration: 1h}}}`), old)
	require.ErrorContains(t, err, "you lack the verb")
}

func TestS1_WhatAnotherWebhookChangesIsRefused(t *testing.T) {
	for name, change := range map[string]func(*unstructured.Unstructured){
		"label": func(u *unstructured.Unstructured) { u.SetLabels(nil) },
		"uid": func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "x", "spec", "objectRef", "uid")
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := newHarness(t).write(ruleWith(t, `{}`), nil, change)
			require.ErrorContains(t, err, "leave it alone")
		})
	}
}

func TestWarningsAboutTheTemplate(t *testing.T) {
	tests := map[string]struct {
		rule   string
		dryRun error
		want   string
	}{
		"fine":               {rule: `{}`},
		"unregistered kind":  {rule: `{spec: {checkTemplate: {kind: Other}}}`, want: "UnknownCheckKind: until that is repaired, the rule denies: no CheckKind registers Other"},
		"refused by dry run": {rule: `{}`, dryRun: admit.Invalid("spec.policies", "at least one"), want: "InvalidTemplate: until that is repaired, the rule denies:"},
		"could not be tried": {rule: `{}`, dryRun: errors.New("away"), want: "could not be tried now"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.dryRun = tc.dryRun
			_, warnings, err := h.write(ruleWith(t, tc.rule), nil)
			require.NoError(t, err, "what is missing may come later")
			if tc.want == "" {
				assert.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			assert.Contains(t, warnings[0], tc.want)
		})
	}
}

func TestWarningsAboutOpenWrites(t *testing.T) {
	connector := func(class string, required bool) *connectorsv1alpha1.Connector {
		c := &connectorsv1alpha1.Connector{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "harbor"}}
		c.Spec.ConnectorClassName, c.Spec.RequireChecks = class, required
		return c
	}
	byMethod := ruleWith(t, `{spec: {when: {http: {methods: [POST, PUT]}}}}`)
	_, warnings, err := newHarness(t, connector("oci", false)).write(byMethod, nil)
	require.NoError(t, err)
	assert.NotEmpty(t, warnings)
	for _, warning := range warnings {
		assert.Regexp(t, "PATCH|DELETE", warning)
	}
	_, warnings, err = newHarness(t, connector("k8s", false)).write(byMethod, nil)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(warnings), maxOpenWrites+1)

	for name, c := range map[string]client.Object{"checks are required": connector("oci", true), "no such connector": &connectorsv1alpha1.Connector{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "x"}}} {
		_, warnings, err = newHarness(t, c).write(byMethod, nil)
		require.NoError(t, err)
		assert.Empty(t, warnings, name)
	}
}

func TestWarningsAboutConsequences(t *testing.T) {
	number := 0
	request := func(edits ...func(*approvalv1alpha1.ResourceCheckRequest)) client.Object {
		number++
		r := &approvalv1alpha1.ResourceCheckRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: fmt.Sprint("r", number)}}
		r.Spec.ObjectRef = approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Namespace: "prod", Name: "harbor"}
		for _, edit := range edits {
			edit(r)
		}
		return r
	}
	granted := func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Status.Validity = &approvalv1alpha1.Validity{NotBefore: metav1.NewTime(now), NotAfter: metav1.NewTime(now.Add(time.Hour))}
	}
	expired := func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Status.Validity = &approvalv1alpha1.Validity{NotBefore: metav1.NewTime(now), NotAfter: metav1.NewTime(now)}
	}
	follows := func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Status.Follows = &approvalv1alpha1.RequestReference{Namespace: "apps", Name: "r1"}
	}
	reads := func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Use = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{"Read"}}
	}
	otherObject := func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.ObjectRef.Name = "other" }

	h := newHarness(t, request(), request(granted), request(granted), request(granted, follows), request(expired), request(reads), request(granted, otherObject))
	u, warnings, err := h.write(ruleWith(t, `{}`), nil)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "closes 3 live grants and asks 3 questions anew")

	_, warnings, err = h.write(ruleWith(t, `{metadata: {annotations: {a: b}}}`), u)
	require.NoError(t, err)
	assert.Empty(t, warnings)

	h.cache = errors.New("not synced")
	_, warnings, err = h.write(ruleWith(t, `{}`), nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"it is not known now how many grants the change closes"}, warnings)

	h = newHarness(t, request(granted))
	_, warnings, err = h.write(ruleWith(t, `{}`), nil)
	require.NoError(t, err)
	assert.Contains(t, warnings[0], "closes 1 live grant and asks 1 question anew")
}
