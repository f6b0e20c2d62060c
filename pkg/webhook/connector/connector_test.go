package connector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

const (
	plain = `
connectorClassName: oci
address: https://harbor.example.com
auth: {name: basicAuth, secretRef: {name: login}}
caCertSecretRef: {name: authority}
contextScope: Run
`
	rules   = "update resourcecheckrules prod/"
	login1  = "get secrets prod/login"
	ca      = "get secrets prod/authority"
	another = "get secrets prod/other"
)

// access allows everything but what it refuses, as "verb resource ns/name".
type access struct {
	refuse map[string]bool
	asked  []string
	err    error
}

func (a *access) Allowed(_ context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (bool, string, error) {
	wish := fmt.Sprintf("%s %s %s/%s", attrs.Verb, attrs.Resource, attrs.Namespace, attrs.Name)
	a.asked = append(a.asked, wish)
	return !a.refuse[wish] && user.Username != "", "", a.err
}

func newWebhook(t *testing.T, a *access, objects ...client.Object) *Webhook {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, approvalv1alpha1.AddToScheme(scheme))
	return New(Deps{Live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), Access: a})
}

// connector is one named harbor with the spec, over which the further YAML is merged.
func connector(t *testing.T, spec string, edits ...string) *unstructured.Unstructured {
	t.Helper()
	merged := map[string]any{}
	for _, text := range append([]string{spec}, edits...) {
		data, err := yaml.YAMLToJSON([]byte(text))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &merged))
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "connectors.alaudadevops.io/v1alpha1", "kind": "Connector",
		"metadata": map[string]any{"name": "harbor", "namespace": "prod"}, "spec": merged,
	}}
}

func review(operation admissionv1.Operation, old, object *unstructured.Unstructured) *admit.Review {
	return &admit.Review{
		Caller:    admit.CallerOf(authenticationv1.UserInfo{Username: "alice"}),
		Operation: operation, Namespace: "prod", Object: object, Old: old,
	}
}

func rule(apiVersion, kind, name string) *approvalv1alpha1.ResourceCheckRule {
	return &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "rule"},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: apiVersion, Kind: kind, Name: name},
		},
	}
}

var guard = rule("connectors.alaudadevops.io/v1", "Connector", "harbor")

func TestRightsThatAnUpdateNeeds(t *testing.T) {
	tests := map[string]struct {
		edit string
		want []string
	}{
		"nothing changes":       {"{}", nil},
		"default spelled out":   {"{contextScope: ''}", nil},
		"empty lists":           {"{operations: [], params: [], addressExtensions: []}", nil},
		"class":                 {"{connectorClassName: any}", []string{rules}},
		"address":               {"{address: https://evil.example.com}", []string{login1, ca, rules}},
		"extensions":            {"{addressExtensions: [{name: x, address: https://evil.example.com}]}", []string{login1, ca, rules}},
		"token services":        {"{params: [{name: tokenRealms, value: [https://evil.example.com]}]}", []string{login1, ca, rules}},
		"other login":           {"{auth: {name: basicAuth, secretRef: {name: other}}}", []string{another, rules}},
		"no login":              {"{auth: null}", []string{rules}},
		"way to log in":         {"{auth: {name: x, secretRef: {name: login}}}", []string{rules}},
		"other authority":       {"{caCertSecretRef: {name: other}}", []string{another}},
		"no authority":          {"{caCertSecretRef: null}", nil},
		"login is authority":    {"{auth: {name: basicAuth, secretRef: {name: other}}, caCertSecretRef: {name: other}}", []string{another, rules}},
		"operations":            {"{operations: [{class: Read, paths: [/x]}]}", []string{rules}},
		"scope":                 {"{contextScope: Pod}", []string{rules}},
		"require checks":        {"{requireChecks: true}", []string{rules}},
		"unbound accounts":      {"{allowUnboundServiceAccounts: true}", []string{rules}},
		"own namespace spelled": {"{caCertSecretRef: {name: authority, namespace: prod}}", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			update := func() *admit.Review {
				return review(admissionv1.Update, connector(t, plain), connector(t, plain, test.edit))
			}
			all := &access{}
			require.NoError(t, newWebhook(t, all, guard).Validate(t.Context(), update()))
			assert.Equal(t, test.want, all.asked)
			for _, missing := range test.want {
				err := newWebhook(t, &access{refuse: map[string]bool{missing: true}}, guard).Validate(t.Context(), update())
				assertNotPermitted(t, err)
			}
		})
	}
}

func assertNotPermitted(t *testing.T, err error) {
	t.Helper()
	var status interface{ Status() metav1.Status }
	require.ErrorAs(t, err, &status)
	assert.EqualValues(t, 403, status.Status().Code)
	assert.EqualValues(t, approvalv1alpha1.ReasonNotPermitted, status.Status().Details.Causes[0].Type)
}

func TestRightsThatACreateNeeds(t *testing.T) {
	tests := map[string]struct {
		edit  string
		rules []client.Object
		want  []string
	}{
		"plain":             {"{}", nil, []string{login1, ca}},
		"without Secrets":   {"{auth: null, caCertSecretRef: null}", nil, nil},
		"already guarded":   {"{}", []client.Object{guard}, []string{login1, ca, rules}},
		"guarded by kind":   {"{}", []client.Object{rule("v1", "Connector", "harbor")}, []string{login1, ca}},
		"another guarded":   {"{}", []client.Object{rule("connectors.alaudadevops.io/v1alpha1", "Connector", "gitlab")}, []string{login1, ca}},
		"requires checks":   {"{requireChecks: true}", nil, []string{login1, ca, rules}},
		"own operations":    {"{operations: [{class: Read}]}", nil, []string{login1, ca, rules}},
		"narrower scope":    {"{contextScope: Task}", nil, []string{login1, ca, rules}},
		"unbound accounts":  {"{allowUnboundServiceAccounts: true}", nil, []string{login1, ca, rules}},
		"further addresses": {"{addressExtensions: [{name: x, address: https://x.example.com}]}", nil, []string{login1, ca}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			create := func() *admit.Review { return review(admissionv1.Create, nil, connector(t, plain, test.edit)) }
			all := &access{}
			require.NoError(t, newWebhook(t, all, test.rules...).Validate(t.Context(), create()))
			assert.Equal(t, test.want, all.asked)
			for _, missing := range test.want {
				err := newWebhook(t, &access{refuse: map[string]bool{missing: true}}, test.rules...).Validate(t.Context(), create())
				assertNotPermitted(t, err)
			}
		})
	}
}

func TestWhatCannotBeUsedIsRefused(t *testing.T) {
	tests := map[string]struct{ edit, want string }{
		"pattern":             {`{operations: [{class: Read, paths: ["/a/**/b"]}]}`, "spec.operations[0]: path pattern"},
		"second pattern":      {`{operations: [{class: Read}, {class: Write, paths: ["/a/../b"]}]}`, "spec.operations[1]"},
		"foreign login":       {"{auth: {secretRef: {name: login, namespace: dev}}}", "spec.auth.secretRef.namespace"},
		"foreign authority":   {"{caCertSecretRef: {name: authority, namespace: dev}}", "put the Secret into prod"},
		"not a connector":     {"{operations: x}", "spec.operations"},
		"not a connector too": {"{address: {}}", "spec.address"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w, bad := newWebhook(t, &access{}), connector(t, plain, test.edit)
			require.ErrorContains(t, w.Validate(t.Context(), review(admissionv1.Create, nil, bad)), test.want)
			require.ErrorContains(t, w.Validate(t.Context(), review(admissionv1.Update, connector(t, plain), bad)), test.want)
		})
	}
}

func TestWhatWasStoredBeforeMayStay(t *testing.T) {
	bad := []string{`{operations: [{class: Read, paths: ["/a/**/b"]}], caCertSecretRef: {name: x, namespace: dev}}`}
	next := connector(t, plain, bad...)
	next.SetLabels(map[string]string{"a": "b"})
	require.NoError(t, newWebhook(t, &access{}).Validate(t.Context(), review(admissionv1.Update, connector(t, plain, bad...), next)))
}

func TestOwnerReferencesAreAWayToDelete(t *testing.T) {
	owned := connector(t, plain)
	owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "u"}})
	w := newWebhook(t, &access{refuse: map[string]bool{rules: true}})
	assertNotPermitted(t, w.Validate(t.Context(), review(admissionv1.Update, connector(t, plain), owned)))
	require.NoError(t, w.Validate(t.Context(), review(admissionv1.Update, owned, owned.DeepCopy())))
	require.NoError(t, w.Validate(t.Context(), review(admissionv1.Update, owned, connector(t, plain))))
}

func TestDeletionOfAProtectedConnector(t *testing.T) {
	tests := map[string]struct {
		caller  string
		edit    string
		rules   []client.Object
		refused bool
	}{
		"unprotected":         {"alice", "{}", nil, false},
		"guarded by a rule":   {"alice", "{}", []client.Object{guard}, true},
		"requires checks":     {"alice", "{requireChecks: true}", nil, true},
		"namespace goes":      {"system:serviceaccount:kube-system:namespace-controller", "{requireChecks: true}", []client.Object{guard}, false},
		"namespace goes, too": {"system:kube-controller-manager", "{}", []client.Object{guard}, false},
		"garbage":             {"system:serviceaccount:kube-system:generic-garbage-collector", "{}", []client.Object{guard}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			remove := review(admissionv1.Delete, connector(t, plain, test.edit), nil)
			remove.Caller = admit.CallerOf(authenticationv1.UserInfo{Username: test.caller})
			require.NoError(t, newWebhook(t, &access{}, test.rules...).Validate(t.Context(), remove))
			err := newWebhook(t, &access{refuse: map[string]bool{rules: true}}, test.rules...).Validate(t.Context(), remove)
			if test.refused {
				assertNotPermitted(t, err)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestS9_WhatCannotBeLookedUpIsRefused(t *testing.T) {
	away := errors.New("away")
	update := review(admissionv1.Update, connector(t, plain), connector(t, plain, "{requireChecks: true}"))
	require.ErrorIs(t, newWebhook(t, &access{err: away}).Validate(t.Context(), update), away)

	w := newWebhook(t, &access{})
	w.Live = interceptor.NewClient(w.Live.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away },
	})
	require.ErrorIs(t, w.Validate(t.Context(), review(admissionv1.Create, nil, connector(t, plain))), away)
	require.ErrorIs(t, w.Validate(t.Context(), review(admissionv1.Delete, connector(t, plain), nil)), away)
}
