package request

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

func TestS1_SubjectAndContextComeFromTheAuthenticatedRequest(t *testing.T) {
	pipelineRun := &approvalv1alpha1.ObjectReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Namespace: "apps", Name: "run", UID: "run"}
	podRef := &approvalv1alpha1.PodReference{Namespace: "apps", Name: "pod", UID: "pod"}
	deployer := &approvalv1alpha1.Subject{Kind: "ServiceAccount", Namespace: "apps", Name: "deployer", UID: "deployer-uid"}
	builder := &approvalv1alpha1.Subject{Kind: "ServiceAccount", Namespace: "apps", Name: "builder", UID: "builder-uid"}
	alice := &approvalv1alpha1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "alice", UID: "alice-uid"}
	token := &approvalv1alpha1.TokenReference{JTI: "jti-1"}

	tests := map[string]struct {
		user  func(pod *origin.Node) authenticationv1.UserInfo
		ask   string
		scope connectorsv1alpha1.ContextScope
		want  approvalv1alpha1.RequestContext
	}{
		"pod": {
			user: func(pod *origin.Node) authenticationv1.UserInfo { return serviceAccountUser("deployer", "jti-1", pod) },
			want: approvalv1alpha1.RequestContext{Subject: deployer, Token: token, Pod: podRef, Resource: pipelineRun},
		},
		"pod, without a reason": {
			user: func(pod *origin.Node) authenticationv1.UserInfo { return serviceAccountUser("deployer", "jti-1", pod) },
			ask:  `spec: {reason: null}`,
			want: approvalv1alpha1.RequestContext{Subject: deployer, Token: token, Pod: podRef, Resource: pipelineRun},
		},
		"pod, for each task": {
			user:  func(pod *origin.Node) authenticationv1.UserInfo { return serviceAccountUser("deployer", "jti-1", pod) },
			scope: "Task",
			want: approvalv1alpha1.RequestContext{Subject: deployer, Token: token, Pod: podRef, Resource: &approvalv1alpha1.ObjectReference{
				APIVersion: "tekton.dev/v1", Kind: "TaskRun", Namespace: "apps", Name: "task", UID: "task"}},
		},
		"pod, for each pod": {
			user:  func(pod *origin.Node) authenticationv1.UserInfo { return serviceAccountUser("deployer", "jti-1", pod) },
			scope: "Pod",
			want: approvalv1alpha1.RequestContext{Subject: deployer, Token: token, Pod: podRef, Resource: &approvalv1alpha1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: "apps", Name: "pod", UID: "pod"}},
		},
		"pod that says the same": {
			user: func(pod *origin.Node) authenticationv1.UserInfo { return serviceAccountUser("deployer", "jti-1", pod) },
			ask: `spec: {context: {subject: {kind: ServiceAccount, name: deployer}, token: {jti: jti-1}, pod: {name: pod, namespace: apps, uid: pod},
				resource: {apiVersion: tekton.dev/v1beta1, kind: PipelineRun, name: run}}}`,
			want: approvalv1alpha1.RequestContext{Subject: deployer, Token: token, Pod: podRef, Resource: pipelineRun},
		},
		"person": {
			user: func(*origin.Node) authenticationv1.UserInfo { return person("alice") },
			want: approvalv1alpha1.RequestContext{Subject: alice},
		},
		"person, narrowed to a token": {
			user: func(*origin.Node) authenticationv1.UserInfo { return person("alice") },
			ask:  `spec: {context: {token: {jti: mine}}}`,
			want: approvalv1alpha1.RequestContext{Subject: alice, Token: &approvalv1alpha1.TokenReference{JTI: "mine"}},
		},
		"creator of the run, for its own service account": {
			user: func(*origin.Node) authenticationv1.UserInfo { return person("alice") },
			ask:  `spec: {context: {resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run}}}`,
			want: approvalv1alpha1.RequestContext{Subject: builder, Resource: pipelineRun},
		},
		"creator of the run, for the service account of a task": {
			user: func(*origin.Node) authenticationv1.UserInfo { return person("alice") },
			ask:  `spec: {context: {subject: {kind: ServiceAccount, name: deployer}, resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run, namespace: apps, uid: run}}}`,
			want: approvalv1alpha1.RequestContext{Subject: deployer, Resource: pipelineRun},
		},
		"custom task, in a pod of its own": {
			user: func(*origin.Node) authenticationv1.UserInfo {
				return serviceAccountUser("custom-task", "jti-2", &origin.Node{Name: "controller", UID: "controller"})
			},
			ask:  `spec: {context: {resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run}}}`,
			want: approvalv1alpha1.RequestContext{Subject: builder, Resource: pipelineRun},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, connector(func(c *connectorsv1alpha1.Connector) { c.Spec.ContextScope = tc.scope }), account("builder"), account("deployer"))
			_, _, pod := h.pipeline()
			h.refused["system:serviceaccount:apps:deployer request-for serviceaccounts apps/builder"] = true
			req, err := h.create(tc.user(pod), ask(t, tc.ask))
			require.NoError(t, err)
			assert.Equal(t, tc.want, req.Spec.Context)
			assert.Equal(t, "harbor-uid", string(req.Spec.ObjectRef.UID))
			in := fingerprint.FromRequest(&req.Spec)
			assert.Equal(t, fingerprint.Sum(&in).String(), req.Labels[approvalv1alpha1.LabelFingerprint])
			assert.True(t, strings.HasPrefix(req.Name, "rcr-"), req.Name)
		})
	}
}

func TestS1_RequestedByComesFromTheAuthenticatedRequest(t *testing.T) {
	h := newHarness(t, connector())
	req, err := h.create(person("alice", "owners", "system:masters"), ask(t, `
spec: {requestedBy: {username: bob, groups: [admins], extra: {x: [z]}}}
metadata:
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: dead, uid: dead}]
  finalizers: [example.com/keep]
  labels: {mine: kept, approval.alaudadevops.io/objectName: forged, tekton.dev/pipelineRun: forged}
`))
	require.NoError(t, err)
	assert.Equal(t, &approvalv1alpha1.Identity{
		Username: "alice", UID: "alice-uid", Groups: []string{"owners"},
		Extra: map[string]approvalv1alpha1.ExtraValue{"authentication.kubernetes.io/credential-id": {"X509SHA256=abc"}},
	}, req.Spec.RequestedBy)
	assert.Empty(t, req.OwnerReferences)
	assert.Empty(t, req.Finalizers)
	assert.Equal(t, "kept", req.Labels["mine"])
	assert.Equal(t, "Connector", req.Labels[approvalv1alpha1.LabelObjectKind])
	assert.Equal(t, "harbor", req.Labels[approvalv1alpha1.LabelObjectName])
	assert.NotContains(t, req.Labels, approvalv1alpha1.LabelTektonPipelineRun)
}

func TestTektonContextsAreLabelled(t *testing.T) {
	h := newHarness(t, connector())
	_, _, pod := h.pipeline()
	req, err := h.create(serviceAccountUser("deployer", "j", pod), ask(t, ""))
	require.NoError(t, err)
	assert.Equal(t, "run", req.Labels[approvalv1alpha1.LabelTektonPipelineRun])
	assert.Equal(t, "task", req.Labels[approvalv1alpha1.LabelTektonTaskRun])
}

func TestS3_NamesAreKeptExactly(t *testing.T) {
	names := []string{"müller@example.org", "a b", "name/with:all*kinds|of\\characters", strings.Repeat("long", 500), "日本語", "system:admin"}
	for _, name := range names {
		h := newHarness(t, connector())
		req, err := h.create(person(name), ask(t, ""))
		require.NoError(t, err, name)
		assert.Equal(t, name, req.Spec.Context.Subject.Name)
		assert.Equal(t, name, req.Spec.RequestedBy.Username)
	}
}

func TestS1_DifferingClientValuesAreRefusedByField(t *testing.T) {
	pod := func(pod *origin.Node) authenticationv1.UserInfo { return serviceAccountUser("deployer", "jti-1", pod) }
	alice := func(*origin.Node) authenticationv1.UserInfo { return person("alice") }
	tests := map[string]struct {
		user func(*origin.Node) authenticationv1.UserInfo
		ask  string
		want string
	}{
		"pod, subject":             {pod, `spec: {context: {subject: {kind: ServiceAccount, name: builder}}}`, "spec.context.subject.name"},
		"pod, subject's uid":       {pod, `spec: {context: {subject: {kind: ServiceAccount, name: deployer, uid: x}}}`, "spec.context.subject.uid"},
		"pod, subject's kind":      {pod, `spec: {context: {subject: {kind: User, name: deployer}}}`, "spec.context.subject.kind"},
		"pod, token":               {pod, `spec: {context: {token: {jti: x}}}`, "spec.context.token.jti"},
		"pod, pod":                 {pod, `spec: {context: {pod: {name: other, namespace: apps, uid: pod}}}`, "spec.context.pod.name"},
		"pod, pod's uid":           {pod, `spec: {context: {pod: {name: pod, namespace: apps, uid: x}}}`, "spec.context.pod.uid"},
		"pod, resource":            {pod, `spec: {context: {resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: other}}}`, "spec.context.resource.name"},
		"pod, resource's kind":     {pod, `spec: {context: {resource: {apiVersion: batch/v1, kind: Job, name: run}}}`, "spec.context.resource.kind"},
		"pod, narrower resource":   {pod, `spec: {context: {resource: {apiVersion: tekton.dev/v1, kind: TaskRun, name: task}}}`, "spec.context.resource.kind"},
		"pod, resource's uid":      {pod, `spec: {context: {resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run, uid: x}}}`, "spec.context.resource.uid"},
		"pod, other namespace":     {pod, `metadata: {namespace: prod}`, "metadata.namespace"},
		"object's uid":             {alice, `spec: {objectRef: {uid: x}}`, "spec.objectRef.uid"},
		"person, subject":          {alice, `spec: {context: {subject: {kind: User, name: bob}}}`, "spec.context.subject.name"},
		"person, pod":              {alice, `spec: {context: {pod: {name: pod, namespace: apps, uid: pod}}}`, "spec.context.pod"},
		"run, user as subject":     {alice, `spec: {context: {subject: {kind: User, name: builder}, resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run}}}`, "spec.context.subject.kind"},
		"run, other account":       {alice, `spec: {context: {subject: {kind: ServiceAccount, name: admin}, resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run}}}`, "does not use the service account"},
		"run, other namespace":     {alice, `spec: {context: {resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run, namespace: prod}}}`, "spec.context.resource.namespace"},
		"run, other uid":           {alice, `spec: {context: {resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run, uid: x}}}`, "spec.context.resource.uid"},
		"run, token":               {alice, `spec: {context: {token: {jti: x}, resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run}}}`, "spec.context.token"},
		"run that is none":         {alice, `spec: {context: {resource: {apiVersion: apps/v1, kind: Deployment, name: run}}}`, "no kind of run"},
		"run that is not there":    {alice, `spec: {context: {resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: none}}}`, "there is no PipelineRun apps/none"},
		"task of a run":            {alice, `spec: {context: {resource: {apiVersion: tekton.dev/v1, kind: TaskRun, name: task}}}`, "ask for PipelineRun apps/run"},
		"revoked":                  {alice, `spec: {revoked: {reason: x}}`, "spec.revoked"},
		"no reason":                {alice, `spec: {reason: " "}`, "spec.reason"},
		"past before":              {alice, `spec: {timeRange: {before: "2025-01-02T00:00:00Z"}}`, "spec.timeRange.before"},
		"after not before":         {alice, `spec: {timeRange: {after: "2025-01-04T00:00:00Z", before: "2025-01-03T00:00:00Z"}}`, "spec.timeRange.after"},
		"no duration":              {alice, `spec: {timeRange: {duration: 0s}}`, "spec.timeRange.duration"},
		"unreadable duration":      {alice, `spec: {timeRange: {duration: 1d}}`, "spec"},
		"unreadable pattern":       {alice, `spec: {use: {http: {paths: ["/a/../b"]}}}`, "spec.use.http"},
		"reserved name":            {alice, `metadata: {generateName: null, name: rcr-mine}`, "metadata.name"},
		"reserved generateName":    {alice, `metadata: {generateName: rcr-mine-}`, "metadata.name"},
		"name beside generateName": {alice, `metadata: {name: rcr-mine}`, "the server would name this request"},
		"cluster-scoped object":    {alice, `spec: {objectRef: {apiVersion: v1, kind: Node}}`, "spec.objectRef.kind"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, connector(), account("builder"), account("deployer"))
			_, task, pod := h.pipeline()
			task.CreatedBy = tektonController
			for _, account := range []string{"deployer", "builder"} {
				h.refused["system:serviceaccount:apps:deployer request-for serviceaccounts apps/"+account] = true
			}
			h.refused["alice request-for serviceaccounts apps/deployer"] = name != "task of a run"
			_, err := h.create(tc.user(pod), ask(t, tc.ask))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestS1_WhoMayNotAskIsRefused(t *testing.T) {
	forRun := `spec: {context: {resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run}}}`
	tests := map[string]struct {
		user   authenticationv1.UserInfo
		ask    string
		refuse string
		since  time.Time
		edit   func(h *harness)
		want   string
	}{
		"anonymous":                {user: authenticationv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}, want: "nobody is logged in"},
		"nobody":                   {user: authenticationv1.UserInfo{}, want: "nobody is logged in"},
		"without the right":        {user: person("alice"), refuse: "alice write connectors/apis prod/harbor", want: `lacks the verb "write" on connectors/apis`},
		"without the right, read":  {user: person("alice"), ask: `spec: {use: {operations: [Read]}}`, refuse: "alice read connectors/apis prod/harbor", want: `lacks the verb "read"`},
		"without one of two":       {user: person("alice"), ask: `spec: {use: {operations: [Read, Write]}}`, refuse: "alice write connectors/apis prod/harbor", want: `lacks the verb "write"`},
		"use by path alone":        {user: person("alice"), ask: `spec: {use: {http: {paths: ["/v2/**"]}}}`, refuse: "alice write connectors/apis prod/harbor", want: `lacks the verb "write"`},
		"no such connector":        {user: person("alice"), ask: `spec: {objectRef: {name: none}}`, want: `lacks the verb "write" on connectors/apis`},
		"no such kind":             {user: person("alice"), ask: `spec: {objectRef: {apiVersion: example.com/v1, kind: Thing}}`, want: `lacks the verb "request" on it`},
		"another kind":             {user: person("alice"), ask: `spec: {objectRef: {apiVersion: v1, kind: ConfigMap}}`, refuse: "alice request configmaps prod/harbor", want: `lacks the verb "request" on it`},
		"somebody else's run":      {user: person("mallory"), ask: forRun, refuse: "mallory request-for serviceaccounts apps/builder", want: "only who created PipelineRun apps/run"},
		"creator before the epoch": {user: person("alice"), ask: forRun, since: now, refuse: "alice request-for serviceaccounts apps/builder", want: "only who created"},
		"no epoch":                 {user: person("alice"), ask: forRun, since: time.Unix(0, 0).Add(-1), refuse: "alice request-for serviceaccounts apps/builder", want: "only who created"},
		"the run's account lacks the right": {user: person("alice"), ask: forRun, refuse: "system:serviceaccount:apps:builder write connectors/apis prod/harbor",
			want: `"system:serviceaccount:apps:builder" lacks the verb "write"`},
		"service account without a pod": {user: serviceAccountUser("builder", "j", nil), want: "the token belongs to no pod"},
		"finished run": {user: person("alice"), ask: forRun, edit: func(h *harness) { h.nodes[0].Finished, h.nodes[0].FinishedWhy = true, "Succeeded" },
			want: "it has finished (Succeeded)"},
		"pod of a finished run": {user: serviceAccountUser("deployer", "j", &origin.Node{Name: "pod", UID: "pod"}),
			edit: func(h *harness) { h.nodes[0].Deleting = true }, want: "it is being deleted"},
		"pod that is gone":   {user: serviceAccountUser("deployer", "j", &origin.Node{Name: "old", UID: "old"}), want: "is gone"},
		"pod of another uid": {user: serviceAccountUser("deployer", "j", &origin.Node{Name: "pod", UID: "old"}), want: "is gone"},
		"pod whose owner was not seen": {user: serviceAccountUser("deployer", "j", &origin.Node{Name: "pod", UID: "pod"}),
			edit: func(h *harness) { h.nodes = h.nodes[1:] }, want: "not known yet"},
		"no such account": {user: person("alice"), ask: forRun, edit: func(h *harness) { h.nodes[0].ServiceAccounts = []string{"none"} }, want: "there is no service account apps/none"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, connector(), account("builder"), account("deployer"))
			h.pipeline()
			h.refused[tc.refuse] = true
			if !tc.since.IsZero() {
				h.since = tc.since
			}
			if name == "no epoch" {
				h.since = time.Time{}
			}
			if tc.edit != nil {
				tc.edit(h)
			}
			_, err := h.create(tc.user, ask(t, tc.ask))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestUnknownAndForbiddenObjectsGetTheSameAnswer(t *testing.T) {
	h := newHarness(t, connector())
	h.refused["alice write connectors/apis prod/harbor"] = true
	h.refused["alice write connectors/apis prod/absent"] = true
	_, forbidden := h.create(person("alice"), ask(t, ""))
	_, unknown := h.create(person("alice"), ask(t, `spec: {objectRef: {name: absent}}`))
	require.Error(t, forbidden)
	require.Error(t, unknown)
	assert.Equal(t, strings.ReplaceAll(unknown.Error(), "absent", "harbor"), forbidden.Error())
}

func TestServiceAccountWithoutAPodWhereTheConnectorAllowsIt(t *testing.T) {
	allow := func(c *connectorsv1alpha1.Connector) { c.Spec.AllowUnboundServiceAccounts = true }
	h := newHarness(t, connector(allow))
	req, err := h.create(serviceAccountUser("builder", "jti-1", nil), ask(t, ""))
	require.NoError(t, err)
	assert.Equal(t, &approvalv1alpha1.TokenReference{JTI: "jti-1"}, req.Spec.Context.Token)
	assert.Nil(t, req.Spec.Context.Resource)

	_, err = h.create(serviceAccountUser("builder", "", nil), ask(t, ""))
	require.ErrorContains(t, err, "jti")
	_, err = h.create(serviceAccountUser("builder", "jti-1", nil), ask(t, `spec: {context: {token: {jti: other}}}`))
	require.ErrorContains(t, err, "spec.context.token.jti")
	_, err = h.create(serviceAccountUser("builder", "jti-1", nil), ask(t, `spec: {context: {pod: {name: a, namespace: apps, uid: b}}}`))
	require.ErrorContains(t, err, "spec.context.pod")

	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "harbor", UID: "cm"}}
	h = newHarness(t, other)
	_, err = h.create(serviceAccountUser("builder", "jti-1", nil), ask(t, `spec: {objectRef: {apiVersion: v1, kind: ConfigMap}}`))
	require.ErrorContains(t, err, "belongs to no pod")
}

func TestScopesThatARunCannotHave(t *testing.T) {
	tests := map[string]struct {
		scope connectorsv1alpha1.ContextScope
		kind  string
		want  string
	}{
		"pipeline run for tasks": {"Task", "PipelineRun", "for each task on its own"},
		"task run for tasks":     {"Task", "TaskRun", ""},
		"pipeline run for pods":  {"Pod", "PipelineRun", "pods ask for themselves"},
		"task run for pods":      {"Pod", "TaskRun", "pods ask for themselves"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, connector(func(c *connectorsv1alpha1.Connector) { c.Spec.ContextScope = tc.scope }), account("builder"), account("deployer"))
			run, task, _ := h.pipeline()
			named := map[string]*origin.Node{"PipelineRun": run, "TaskRun": task}[tc.kind]
			_, err := h.create(person("alice"), ask(t, `spec: {context: {resource: {apiVersion: tekton.dev/v1, kind: `+tc.kind+`, name: `+named.Name+`}}}`))
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestOtherKindsAreAskedByTheVerbRequest(t *testing.T) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "harbor", UID: "cm"}}
	h := newHarness(t, object)
	req, err := h.create(person("alice"), ask(t, `spec: {objectRef: {apiVersion: v1, kind: ConfigMap}}`))
	require.NoError(t, err)
	assert.Equal(t, "cm", string(req.Spec.ObjectRef.UID))
	assert.Contains(t, h.asked, "alice request configmaps prod/harbor")
}

func TestS1_WhatAnotherWebhookChangesIsRefused(t *testing.T) {
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, value, path...) }
	}
	tests := map[string]struct {
		between func(*unstructured.Unstructured)
		want    string
	}{
		"requestedBy":     {set("mallory", "spec", "requestedBy", "username"), "spec.requestedBy"},
		"groups":          {set([]any{"owners"}, "spec", "requestedBy", "groups"), "spec.requestedBy"},
		"subject":         {set("mallory", "spec", "context", "subject", "name"), "spec.context.subject.name"},
		"subject removed": {func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "context") }, "spec.context"},
		"object":          {set("x", "spec", "objectRef", "uid"), "spec.objectRef.uid"},
		"fingerprint":     {set("x", "metadata", "labels", approvalv1alpha1.LabelFingerprint), "metadata.labels"},
		"owner":           {set([]any{map[string]any{"kind": "X"}}, "metadata", "ownerReferences"), "metadata.ownerReferences"},
		"finalizer":       {set([]any{"x/y"}, "metadata", "finalizers"), "metadata.finalizers"},
		"name":            {set("rcr-other", "metadata", "name"), "the server would name"},
		"name removed":    {func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "metadata", "name") }, "metadata.name"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := newHarness(t, connector()).admit(person("alice"), ask(t, ""), tc.between, false)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestCompletingKeepsWhatTheClientWrote(t *testing.T) {
	h := newHarness(t, connector())
	u := mutate(t, h, person("alice"), ask(t, `spec: {timeRange: {duration: 90m}}`))
	duration, _, _ := unstructured.NestedString(u.Object, "spec", "timeRange", "duration")
	assert.Equal(t, "90m", duration)
	_, hasStatus := u.Object["status"]
	assert.False(t, hasStatus)
}
