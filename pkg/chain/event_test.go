package chain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// logged is an event as an API server writes it at level Metadata.
func logged(verb, resource, name string, changes ...func(*auditv1.Event)) *auditv1.Event {
	e := &auditv1.Event{
		Stage: auditv1.StageResponseComplete, Verb: verb, RequestURI: "/api/v1/namespaces/team-a/" + resource,
		User:                     authenticationv1.UserInfo{Username: alice},
		ObjectRef:                &auditv1.ObjectReference{APIVersion: "v1", Resource: resource, Namespace: "team-a", Name: name},
		ResponseStatus:           &metav1.Status{Code: 200},
		RequestReceivedTimestamp: metav1.NewMicroTime(at.Add(100 * time.Millisecond)),
		StageTimestamp:           metav1.NewMicroTime(at.Add(200 * time.Millisecond)),
	}
	if verb == "create" {
		e.ResponseStatus.Code = 201
	}
	for _, change := range changes {
		change(e)
	}
	return e
}

func body(text string) func(*auditv1.Event) {
	return func(e *auditv1.Event) { e.ResponseObject = &runtime.Unknown{Raw: []byte(text)} }
}

func through(as string) func(*auditv1.Event) {
	return func(e *auditv1.Event) { e.ImpersonatedUser = &authenticationv1.UserInfo{Username: as} }
}

func TestReduce(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"team-a","name":"build-x7","uid":"pod-1"}}`
	tests := map[string]struct {
		event *auditv1.Event
		want  *Event
	}{
		"a creation with a name":      {logged("create", "pods", "build"), &Event{Deed: Created, Name: "build", User: alice}},
		"a creation by generateName":  {logged("create", "pods", ""), &Event{Deed: Created, User: alice}},
		"a creation, impersonated":    {logged("create", "pods", "build", through(bot)), &Event{Deed: Created, Name: "build", User: alice, As: bot}},
		"a creation with its answer":  {logged("create", "pods", "", body(pod)), &Event{Deed: Created, Name: "build-x7", UID: "pod-1", User: alice}},
		"an apply that creates":       {logged("patch", "pods", "build", func(e *auditv1.Event) { e.ResponseStatus.Code = 201 }), &Event{Deed: Created, Name: "build", User: alice}},
		"an update that says the UID": {logged("update", "pods", "build", func(e *auditv1.Event) { e.ObjectRef.UID = "pod-1" }), &Event{Deed: Changed, Name: "build", UID: "pod-1", User: alice}},
		"a creation with a UID of the client's choice": {logged("create", "pods", "build", func(e *auditv1.Event) { e.ObjectRef.UID = "pod-9" }),
			&Event{Deed: Created, Name: "build", User: alice}},
		"a patch":    {logged("patch", "pods", "build"), &Event{Deed: Changed, Name: "build", User: alice}},
		"a deletion": {logged("delete", "pods", "build"), &Event{Deed: Deleted, Name: "build", User: alice}},
		"a deletion answered with a status": {logged("delete", "pods", "build",
			body(`{"kind":"Status","apiVersion":"v1","details":{"name":"build","uid":"pod-1"}}`)), &Event{Deed: Deleted, Name: "build", UID: "pod-1", User: alice}},
		"an eviction": {logged("create", "pods", "build", func(e *auditv1.Event) { e.ObjectRef.Subresource = "eviction" }), &Event{Deed: Deleted, Name: "build", User: alice}},
		"a refusal":   {event: logged("create", "pods", "build", func(e *auditv1.Event) { e.ResponseStatus.Code = 403 })},
		"a conflict":  {event: logged("create", "pods", "build", func(e *auditv1.Event) { e.ResponseStatus.Code = 409 })},
		"a dry run":   {event: logged("create", "pods", "build", func(e *auditv1.Event) { e.RequestURI += "?dryRun=All" })},
		"a read":      {event: logged("get", "pods", "build")},
		"a status":    {event: logged("patch", "pods", "build", func(e *auditv1.Event) { e.ObjectRef.Subresource = "status" })},
		"a token":     {event: logged("create", "serviceaccounts", "bot", func(e *auditv1.Event) { e.ObjectRef.Subresource = "token" })},
		"an earlier stage": {event: logged("create", "pods", "build", func(e *auditv1.Event) {
			e.Stage = auditv1.StageRequestReceived
		})},
		"no object": {event: logged("create", "pods", "build", func(e *auditv1.Event) { e.ObjectRef = nil })},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Reduce(test.event)
			if test.want == nil {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			assert.Equal(t, "pods", got.Resource)
			assert.Equal(t, "team-a", got.Namespace)
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(Event{}, "Resource", "Namespace", "Received", "At", "Object")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReduceReadsOurKindsWhole(t *testing.T) {
	ours := func(kind, subresource string) *Event {
		return Reduce(logged("patch", "x", "x", func(e *auditv1.Event) {
			e.ObjectRef.APIGroup, e.ObjectRef.Subresource = "approval.alaudadevops.io", subresource
		}, body(`{"apiVersion":"approval.alaudadevops.io/v1alpha1","kind":"`+kind+`","metadata":{"name":"x","uid":"x-1"},"spec":{}}`)))
	}
	assert.NotNil(t, ours("ResourceCheckRequest", "status").Request, "the status holds rules and checks")
	assert.NotNil(t, ours("ApprovalResponse", "").Answer)
	assert.Nil(t, ours("ApprovalRequest", "").Request)
}

func TestBrackets(t *testing.T) {
	e := &Event{Received: at.Add(900 * time.Millisecond), At: at.Add(1100 * time.Millisecond)}
	assert.True(t, e.brackets(at))
	assert.True(t, e.brackets(at.Add(time.Second)))
	assert.False(t, e.brackets(at.Add(2*time.Second)))
	assert.False(t, e.brackets(at.Add(-time.Second)))
}
