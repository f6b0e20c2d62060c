package response

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// access lets owners revoke.
type access struct {
	owners map[string]bool
	err    error
}

func (a *access) Allowed(_ context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (bool, string, error) {
	wanted := authz.ResourceAttributes{Group: "approval.alaudadevops.io", Version: "v1alpha1", Resource: "resourcecheckrules", Verb: "revoke", Namespace: "prod"}
	return a.owners[user.Username] && attrs == wanted, "", a.err
}

type harness struct {
	t       *testing.T
	webhook *Webhook
	client  client.Client
	access  *access
}

// newHarness has one open check that group owners and user dave may answer, asked by alice, and also by amy.
func newHarness(t *testing.T, edits ...func(*approvalv1alpha1.ApprovalRequest, *approvalv1alpha1.ResourceCheckRequest)) *harness {
	t.Helper()
	check := &approvalv1alpha1.ApprovalRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: "prod", Name: "check", UID: "check-uid", Labels: map[string]string{approvalv1alpha1.LabelRequestUID: "request-uid"}}}
	check.Spec.Policies = []approvalv1alpha1.ApprovalPolicy{{Name: "owners", NumberOfApprovalsRequired: 2, Approvers: []approvalv1alpha1.Approver{
		{Type: approvalv1alpha1.ApproverGroup, Name: "owners"}, {Type: approvalv1alpha1.ApproverUser, Name: "dave"},
		{Type: approvalv1alpha1.ApproverUser, Name: "alice"}, {Type: approvalv1alpha1.ApproverUser, Name: "amy"}}}}
	check.Spec.Request = &approvalv1alpha1.CheckRequest{
		Ref:         approvalv1alpha1.RequestReference{Namespace: "apps", Name: "request", UID: "request-uid"},
		Subject:     approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "alice"},
		RequestedBy: approvalv1alpha1.Identity{Username: "alice"},
	}
	request := &approvalv1alpha1.ResourceCheckRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "request", UID: "request-uid"}}
	request.Status.Askers = []string{"amy"}
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "prod", Name: "foreign", UID: "foreign-uid", Labels: map[string]string{approvalv1alpha1.LabelRequestUID: "request-uid"}}}
	stray := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "stray", UID: "stray-uid"}}
	for _, edit := range edits {
		edit(check, request)
	}
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, approvalv1alpha1.AddToScheme(scheme))
	h := &harness{t: t, access: &access{owners: map[string]bool{"olga": true}}}
	h.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(check, request, foreign, stray).
		WithIndex(&approvalv1alpha1.ApprovalResponse{}, fieldCheckUID, func(o client.Object) []string {
			return []string{string(o.(*approvalv1alpha1.ApprovalResponse).Spec.RequestRef.UID)}
		}).Build()
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), apimeta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), apimeta.RESTScopeRoot)
	h.webhook = New(Deps{Live: h.client, Mapper: mapper, Access: h.access})
	return h
}

func person(name string, groups ...string) authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: name, UID: name + "-uid", Groups: append(groups, "system:authenticated"),
		Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"JTI=j"}, "scopes": {"all"}}}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	return u
}

func answerWith(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, "apiVersion: approval.alaudadevops.io/v1alpha1\nkind: ApprovalResponse\nmetadata: {namespace: prod, name: answer}\nspec: "+spec)
}

const approve = `{requestRef: {name: check}, decision: Approve}`

func wire(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	data, err := json.Marshal(u)
	require.NoError(t, err)
	read := &unstructured.Unstructured{}
	require.NoError(t, read.UnmarshalJSON(data))
	return read
}

func (h *harness) create(user authenticationv1.UserInfo, u *unstructured.Unstructured, between ...func(*unstructured.Unstructured)) (*approvalv1alpha1.ApprovalResponse, error) {
	h.t.Helper()
	r := &admit.Review{Caller: admit.CallerOf(user), Operation: admissionv1.Create, Namespace: "prod", Object: wire(h.t, u)}
	if err := h.webhook.Mutate(h.t.Context(), r); err != nil {
		return nil, err
	}
	r.Object = wire(h.t, r.Object)
	for _, change := range between {
		change(r.Object)
	}
	if err := h.webhook.Validate(h.t.Context(), r); err != nil {
		return nil, err
	}
	stored := &approvalv1alpha1.ApprovalResponse{}
	require.NoError(h.t, admit.Decode(r.Object, stored))
	return stored, nil
}

// store keeps an admitted answer.
func (h *harness) store(r *approvalv1alpha1.ApprovalResponse, name string) {
	h.t.Helper()
	r.Name, r.ResourceVersion = name, ""
	require.NoError(h.t, h.client.Create(h.t.Context(), r))
}

func TestS1_ResponderComesFromTheAuthenticatedRequest(t *testing.T) {
	h := newHarness(t)
	u := answerWith(t, `{requestRef: {name: check}, decision: Approve, asOwner: true, grantFor: 90m, responder: {username: mallory, groups: [owners]}}`)
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "dead", UID: "dead"}})
	u.SetFinalizers([]string{"example.com/keep"})
	r, err := h.create(person("bob", "developers", "owners"), u)
	require.NoError(t, err)
	assert.Equal(t, &approvalv1alpha1.Identity{Username: "bob", UID: "bob-uid", Groups: []string{"owners"},
		Extra: map[string]approvalv1alpha1.ExtraValue{"authentication.kubernetes.io/credential-id": {"JTI=j"}}}, r.Spec.Responder)
	assert.Equal(t, approvalv1alpha1.CheckTarget{Kind: "ApprovalRequest", Name: "check", UID: "check-uid"}, r.Spec.RequestRef)
	assert.False(t, r.Spec.AsOwner)
	assert.Equal(t, []metav1.OwnerReference{{APIVersion: "approval.alaudadevops.io/v1alpha1", Kind: "ApprovalRequest", Name: "check", UID: "check-uid"}}, r.OwnerReferences)
	assert.Empty(t, r.Finalizers)
}

func TestS7_WhoAnswers(t *testing.T) {
	state := func(s duckv1alpha1.CheckState) func(*approvalv1alpha1.ApprovalRequest, *approvalv1alpha1.ResourceCheckRequest) {
		return func(c *approvalv1alpha1.ApprovalRequest, _ *approvalv1alpha1.ResourceCheckRequest) {
			c.Status.State = s
		}
	}
	type edit = func(*approvalv1alpha1.ApprovalRequest, *approvalv1alpha1.ResourceCheckRequest)
	tests := map[string]struct {
		user  authenticationv1.UserInfo
		spec  string
		edits []edit
		want  string // empty: admitted
	}{
		"by group":               {user: person("bob", "owners")},
		"by name":                {user: person("dave")},
		"reject":                 {user: person("dave"), spec: `{requestRef: {name: check}, decision: Reject, comment: bad image}`},
		"with the right uid":     {user: person("dave"), spec: `{requestRef: {name: check, uid: check-uid}, decision: Approve}`},
		"not named":              {user: person("eve", "developers"), want: "not among the approvers"},
		"the requester":          {user: person("alice"), want: "part of this request"},
		"who asked the same":     {user: person("amy"), want: "part of this request"},
		"anonymous":              {user: authenticationv1.UserInfo{Username: "system:anonymous"}, want: "nobody is logged in"},
		"a service account":      {user: authenticationv1.UserInfo{Username: "system:serviceaccount:a:b", Groups: []string{"owners"}}, want: "service account"},
		"wrong uid":              {user: person("dave"), spec: `{requestRef: {name: check, uid: other}, decision: Approve}`, want: "spec.requestRef.uid"},
		"no such check":          {user: person("dave"), spec: `{requestRef: {name: none}, decision: Approve}`, want: "there is no ApprovalRequest"},
		"foreign kind":           {user: person("dave"), spec: `{requestRef: {apiVersion: v1, kind: ConfigMap, name: foreign}, decision: Approve}`, want: "answered in its own way"},
		"kind without its group": {user: person("dave"), spec: `{requestRef: {kind: ConfigMap, name: foreign}, decision: Revoke, comment: x}`, want: "spec.requestRef.apiVersion"},
		"approved already":       {user: person("dave"), edits: []edit{state(duckv1alpha1.CheckApproved)}, want: "approved already"},
		"rejected already":       {user: person("dave"), edits: []edit{state(duckv1alpha1.CheckRejected)}, want: "rejected already"},
		"cancelled already":      {user: person("dave"), edits: []edit{state(duckv1alpha1.CheckCancelled)}, want: "cancelled already"},
		"in error, not decided":  {user: person("dave"), edits: []edit{state(duckv1alpha1.CheckError)}},
		"no lasting grant":       {user: person("dave"), spec: `{requestRef: {name: check}, decision: Approve, grantFor: 0s}`, want: "spec.grantFor"},
		"the request is gone":    {user: person("dave"), edits: []edit{func(_ *approvalv1alpha1.ApprovalRequest, r *approvalv1alpha1.ResourceCheckRequest) { r.Name = "other" }}, want: "the request is gone"},
		"the request is another": {user: person("dave"), edits: []edit{func(_ *approvalv1alpha1.ApprovalRequest, r *approvalv1alpha1.ResourceCheckRequest) { r.UID = "other" }}, want: "the request is gone"},
		"the request has ended": {user: person("dave"), edits: []edit{func(_ *approvalv1alpha1.ApprovalRequest, r *approvalv1alpha1.ResourceCheckRequest) {
			r.Status.Ended = &approvalv1alpha1.Ended{Reason: "Revoked"}
		}}, want: "the request has ended (Revoked)"},
		"without a question": {user: person("dave"), edits: []edit{func(c *approvalv1alpha1.ApprovalRequest, _ *approvalv1alpha1.ResourceCheckRequest) {
			c.Spec.Request = nil
		}}, want: "does not say who asks"},
		"not made by Countersign": {user: person("dave"), edits: []edit{func(c *approvalv1alpha1.ApprovalRequest, _ *approvalv1alpha1.ResourceCheckRequest) { c.Labels = nil }}, want: "no request asks"},
		"being deleted": {user: person("dave"), edits: []edit{func(c *approvalv1alpha1.ApprovalRequest, _ *approvalv1alpha1.ResourceCheckRequest) {
			now := metav1.Now()
			c.DeletionTimestamp, c.Finalizers = &now, []string{"x/y"}
		}}, want: "being deleted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.spec == "" {
				tc.spec = approve
			}
			_, err := newHarness(t, tc.edits...).create(tc.user, answerWith(t, tc.spec))
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// impersonated is somebody whom the API server knows by another's word.
func impersonated(name string, groups ...string) authenticationv1.UserInfo {
	who := person(name, groups...)
	delete(who.Extra, approvalv1alpha1.ExtraCredentialID)
	return who
}

func TestS7_AssertedAnswers(t *testing.T) {
	forbid := func(c *approvalv1alpha1.ApprovalRequest, _ *approvalv1alpha1.ResourceCheckRequest) {
		c.Spec.AssertedAnswers = approvalv1alpha1.AssertedAnswersForbid
	}
	t.Run("are taken by default, and marked", func(t *testing.T) {
		r, err := newHarness(t).create(impersonated("dave"), answerWith(t, approve))
		require.NoError(t, err)
		assert.True(t, r.Spec.Responder.Asserted())
	})
	t.Run("are told of", func(t *testing.T) {
		for want, who := range map[string]authenticationv1.UserInfo{"shown as asserted": impersonated("dave"), "": person("dave")} {
			h := newHarness(t)
			r := &admit.Review{Caller: admit.CallerOf(who), Operation: admissionv1.Create, Namespace: "prod", Object: wire(t, answerWith(t, approve))}
			require.NoError(t, h.webhook.Mutate(t.Context(), r))
			require.NoError(t, h.webhook.Validate(t.Context(), r))
			assert.Equal(t, want != "", len(r.Warnings) == 1)
			assert.Contains(t, strings.Join(r.Warnings, ""), want)
		}
	})
	t.Run("a credential id sent in the object is none", func(t *testing.T) {
		_, err := newHarness(t, forbid).create(impersonated("dave"), answerWith(t,
			`{requestRef: {name: check}, decision: Approve, responder: {username: dave, extra: {"authentication.kubernetes.io/credential-id": ["JTI=j"]}}}`))
		require.ErrorContains(t, err, "log in with a token of your own")
	})
	t.Run("two credential ids are none", func(t *testing.T) {
		who := person("dave")
		who.Extra[approvalv1alpha1.ExtraCredentialID] = authenticationv1.ExtraValue{"JTI=j", "JTI=k"}
		_, err := newHarness(t, forbid).create(who, answerWith(t, approve))
		require.ErrorContains(t, err, "log in with a token of your own")
	})
	t.Run("are refused where the rule says so", func(t *testing.T) {
		h := newHarness(t, forbid)
		for _, decision := range []string{"Approve", "Reject"} {
			_, err := h.create(impersonated("dave"), answerWith(t, `{requestRef: {name: check}, decision: `+decision+`, comment: x}`))
			require.ErrorContains(t, err, "log in with a token of your own")
		}
		_, err := h.create(person("dave"), answerWith(t, approve))
		require.NoError(t, err)
	})
	t.Run("a Revoke closes all the same", func(t *testing.T) {
		r, err := newHarness(t, forbid).create(impersonated("olga"), answerWith(t, `{requestRef: {name: check}, decision: Revoke, comment: x}`))
		require.NoError(t, err)
		assert.True(t, r.Spec.Responder.Asserted())
	})
}

func TestS7_NobodyAnswersTwice(t *testing.T) {
	h := newHarness(t)
	first, err := h.create(person("dave"), answerWith(t, approve))
	require.NoError(t, err)
	h.store(first, "first")
	_, err = h.create(person("dave"), answerWith(t, `{requestRef: {name: check}, decision: Reject, comment: changed my mind}`))
	require.ErrorContains(t, err, "you have answered already (Approve, in first)")
	_, err = h.create(person("bob", "owners"), answerWith(t, approve))
	require.NoError(t, err)
}

func TestRevoke(t *testing.T) {
	const revoke = `{requestRef: {name: check}, decision: Revoke, comment: wrong image}`
	decided := func(s duckv1alpha1.CheckState) func(c *approvalv1alpha1.ApprovalRequest, r *approvalv1alpha1.ResourceCheckRequest) {
		return func(c *approvalv1alpha1.ApprovalRequest, _ *approvalv1alpha1.ResourceCheckRequest) {
			c.Status.State = s
		}
	}
	t.Run("an owner, after the decision", func(t *testing.T) {
		r, err := newHarness(t, decided(duckv1alpha1.CheckApproved)).create(person("olga"), answerWith(t, revoke))
		require.NoError(t, err)
		assert.True(t, r.Spec.AsOwner)
	})
	t.Run("one's own Approve", func(t *testing.T) {
		h := newHarness(t)
		first, err := h.create(person("dave"), answerWith(t, approve))
		require.NoError(t, err)
		h.store(first, "first")
		r, err := h.create(person("dave"), answerWith(t, revoke))
		require.NoError(t, err)
		assert.False(t, r.Spec.AsOwner)
		_, err = h.create(person("bob", "owners"), answerWith(t, revoke))
		require.ErrorContains(t, err, "you have not approved this")
	})
	t.Run("one's own Reject", func(t *testing.T) {
		h := newHarness(t)
		first, err := h.create(person("dave"), answerWith(t, `{requestRef: {name: check}, decision: Reject, comment: bad image}`))
		require.NoError(t, err)
		h.store(first, "first")
		_, err = h.create(person("dave"), answerWith(t, revoke))
		require.ErrorContains(t, err, "you have not approved this")
	})
	t.Run("what is over", func(t *testing.T) {
		for _, state := range []duckv1alpha1.CheckState{duckv1alpha1.CheckRejected, duckv1alpha1.CheckCancelled} {
			_, err := newHarness(t, decided(state)).create(person("olga"), answerWith(t, revoke))
			require.ErrorContains(t, err, "nothing to revoke")
		}
	})
	t.Run("a check of another kind", func(t *testing.T) {
		foreign := `{requestRef: {apiVersion: v1, kind: ConfigMap, name: foreign}, decision: Revoke, comment: x}`
		r, err := newHarness(t).create(person("olga"), answerWith(t, foreign))
		require.NoError(t, err)
		assert.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "foreign", UID: "foreign-uid"}}, r.OwnerReferences)
		_, err = newHarness(t).create(person("dave"), answerWith(t, foreign))
		require.ErrorContains(t, err, "you have not approved this")
	})
	t.Run("what is no check", func(t *testing.T) {
		_, err := newHarness(t).create(person("olga"), answerWith(t, `{requestRef: {apiVersion: v1, kind: ConfigMap, name: stray}, decision: Revoke, comment: x}`))
		require.ErrorContains(t, err, "no request asks")
		for _, kind := range []string{"{apiVersion: v1, kind: Node, name: a}", "{apiVersion: example.com/v1, kind: Thing, name: a}"} {
			_, err = newHarness(t).create(person("olga"), answerWith(t, `{requestRef: `+kind+`, decision: Revoke, comment: x}`))
			require.ErrorContains(t, err, "there is no namespaced kind")
		}
	})
	t.Run("nobody can tell who is an owner", func(t *testing.T) {
		h := newHarness(t)
		h.access.err = errors.New("away")
		_, err := h.create(person("olga"), answerWith(t, revoke))
		require.ErrorContains(t, err, "try again")
	})
}

func TestS1_WhatAnotherWebhookChangesIsRefused(t *testing.T) {
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, value, path...) }
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"responder": set("mallory", "spec", "responder", "username"),
		"groups":    set([]any{"owners"}, "spec", "responder", "groups"),
		"owner":     set(true, "spec", "asOwner"),
		"uid": func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "spec", "requestRef", "uid")
		},
		"reference": func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) },
		"finalizer": func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"x/y"}) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newHarness(t).create(person("dave"), answerWith(t, approve), change)
			require.ErrorContains(t, err, "leave it alone")
		})
	}
}

func TestS2_AnswersNeverChange(t *testing.T) {
	h := newHarness(t)
	r := &admit.Review{Caller: admit.CallerOf(person("dave")), Operation: admissionv1.Create, Namespace: "prod", Object: wire(t, answerWith(t, `{requestRef: {name: check}, decision: Approve, comment: fine, grantFor: 90m}`))}
	require.NoError(t, h.webhook.Mutate(t.Context(), r))
	old := wire(t, r.Object)

	update := func(change func(u *unstructured.Unstructured)) (*unstructured.Unstructured, error) {
		u := old.DeepCopy()
		change(u)
		r := &admit.Review{Caller: admit.CallerOf(person("dave")), Operation: admissionv1.Update, Namespace: "prod", Object: u, Old: old}
		require.NoError(t, h.webhook.Mutate(t.Context(), r))
		r.Object = wire(t, r.Object)
		return r.Object, h.webhook.Validate(t.Context(), r)
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"no responder": func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "responder") },
		"no comment":   func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "comment") },
		"no owner":     func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) },
		"no spec":      func(u *unstructured.Unstructured) { delete(u.Object, "spec") },
		"a finalizer":  func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"x/y"}) },
	} {
		t.Run(name, func(t *testing.T) {
			u, err := update(change)
			require.NoError(t, err)
			assert.Equal(t, old, u)
		})
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"decision": func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "Reject", "spec", "decision")
		},
		"comment": func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, "x", "spec", "comment") },
		"asOwner": func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, true, "spec", "asOwner") },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := update(change)
			require.ErrorContains(t, err, "an answer cannot be changed")
		})
	}
}

func TestTheEarliestOwnAnswerIsSpokenOf(t *testing.T) {
	a, b := &approvalv1alpha1.ApprovalResponse{}, &approvalv1alpha1.ApprovalResponse{}
	a.CreationTimestamp, b.CreationTimestamp = metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	assert.True(t, before(a, b))
	b.CreationTimestamp = a.CreationTimestamp
	a.UID, b.UID = "1", "2"
	assert.True(t, before(a, b))
	assert.False(t, before(b, a))
}
