package admit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

const (
	credential = "authentication.kubernetes.io/credential-id"
	podName    = "authentication.kubernetes.io/pod-name"
	podUID     = "authentication.kubernetes.io/pod-uid"
)

func TestCallerOf(t *testing.T) {
	type extra = map[string]authenticationv1.ExtraValue
	account := &types.NamespacedName{Namespace: "ns", Name: "sa"}
	tests := map[string]struct {
		info        authenticationv1.UserInfo
		wantAccount *types.NamespacedName
		wantPod     *Pod
		wantJTI     string
	}{
		"person with a certificate": {info: authenticationv1.UserInfo{Username: "alice", Extra: extra{credential: {"X509SHA256=abc"}}}},
		"person with a token":       {info: authenticationv1.UserInfo{Username: "alice", Extra: extra{credential: {"JTI=j"}}}, wantJTI: "j"},
		"pod": {
			info:        authenticationv1.UserInfo{Username: "system:serviceaccount:ns:sa", Extra: extra{credential: {"JTI=j"}, podName: {"p"}, podUID: {"u"}}},
			wantAccount: account, wantJTI: "j", wantPod: &Pod{types.NamespacedName{Namespace: "ns", Name: "p"}, "u"},
		},
		"service account without a pod": {info: authenticationv1.UserInfo{Username: "system:serviceaccount:ns:sa"}, wantAccount: account},
		"half a pod is none":            {info: authenticationv1.UserInfo{Username: "system:serviceaccount:ns:sa", Extra: extra{podName: {"p"}}}, wantAccount: account},
		"two pods are none":             {info: authenticationv1.UserInfo{Username: "system:serviceaccount:ns:sa", Extra: extra{podName: {"p", "q"}, podUID: {"u", "v"}}}, wantAccount: account},
		"a person has no pod":           {info: authenticationv1.UserInfo{Username: "alice", Extra: extra{podName: {"p"}, podUID: {"u"}}}},
		"a name that only begins so":    {info: authenticationv1.UserInfo{Username: "system:serviceaccount:ns"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := CallerOf(tc.info)
			assert.Equal(t, tc.wantAccount, c.ServiceAccount)
			assert.Equal(t, tc.wantPod, c.Pod)
			assert.Equal(t, tc.wantJTI, c.JTI)
			assert.Equal(t, tc.wantAccount == nil, c.IsPerson())
		})
	}
}

func TestIdentityIsBounded(t *testing.T) {
	info := authenticationv1.UserInfo{Username: "alice", UID: "1", Extra: map[string]authenticationv1.ExtraValue{
		credential: {"JTI=" + strings.Repeat("x", 2000)}, "other": {"y"}}}
	for range 200 {
		info.Groups = append(info.Groups, "g", "system:authenticated", strings.Repeat("x", 2000))
	}
	c := CallerOf(info)
	id := c.Identity(NotSystem)
	assert.Len(t, id.Groups, 64)
	assert.NotContains(t, id.Groups, "system:authenticated")
	assert.Empty(t, id.Extra)
}

func TestIsComparesUIDsWhereBothAreKnown(t *testing.T) {
	c := Caller{}
	c.Username, c.UID = "system:serviceaccount:ns:sa", "1"
	subject := approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectServiceAccount, Namespace: "ns", Name: "sa", UID: "1"}
	assert.True(t, c.Is(&subject))
	subject.UID = "2"
	assert.False(t, c.Is(&subject))
	subject.UID = ""
	assert.True(t, c.Is(&subject))
	assert.False(t, c.Is(nil))
	assert.False(t, c.Is(&approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "sa"}))
	assert.True(t, c.Is(&approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "system:serviceaccount:ns:sa"}))
}

func TestS3_LabelValuesAreValidAndDoNotCollide(t *testing.T) {
	texts := []string{"harbor", "", "a.b-c_d", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 65), "müller", "a/b", "a:b", "a b", "-a-", "日本語", "../.."}
	for _, text := range texts {
		texts = append(texts, LabelValue(text))
	}
	seen := map[string]string{}
	for _, text := range texts {
		value := LabelValue(text)
		assert.Empty(t, validation.IsValidLabelValue(value), "%q", text)
		if other, ok := seen[value]; ok {
			assert.Equal(t, other, text)
		}
		seen[value] = text
	}
}

func FuzzLabelValue(f *testing.F) {
	f.Add("harbor")
	f.Add("x_h_aaaaaaaaaaaaaaaaaaaaaaaaaa")
	f.Fuzz(func(t *testing.T, text string) {
		value := LabelValue(text)
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Fatalf("%q became %q: %v", text, value, problems)
		}
		if value != text && LabelValue(value) == value {
			t.Fatalf("%q and %q share the label %q", text, value, value)
		}
	})
}

func review(t *testing.T, operation admissionv1.Operation, object, old string) admission.Request {
	t.Helper()
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Object: runtime.RawExtension{Raw: []byte(object)}, OldObject: runtime.RawExtension{Raw: []byte(old)},
		UserInfo: authenticationv1.UserInfo{Username: "alice"}, DryRun: ptr.To(true), Namespace: "ns",
	}}
}

const small = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"spec":{"n":90071992547409919}}`

func TestMutatingPatchesOnlyWhatTheStepChanged(t *testing.T) {
	h := Mutating(func(_ context.Context, r *Review) error {
		assert.True(t, r.DryRun)
		assert.Equal(t, "ns", r.Namespace)
		assert.Equal(t, "alice", r.Caller.Username)
		assert.Nil(t, r.Old)
		r.Warn("careful with %s", "\n | this\x1b")
		return Set(r.Object, map[string]string{"b": "c"}, "spec", "a")
	})
	response := h.Handle(t.Context(), review(t, admissionv1.Create, small, ""))
	require.True(t, response.Allowed)
	assert.Equal(t, []string{`careful with | this\x1b`}, response.Warnings)
	patch, err := json.Marshal(response.Patches)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"op":"add","path":"/spec/a","value":{"b":"c"}}]`, string(patch))
}

func TestRefusalsReachTheCaller(t *testing.T) {
	secret := errors.New("10.0.0.1: connection refused")
	tests := map[string]struct {
		err        error
		wantCode   int32
		wantReason metav1.StatusReason
		wantText   string
		wantCause  string
	}{
		"forbidden":   {Forbidden("You may not."), http.StatusForbidden, metav1.StatusReasonForbidden, "You may not.", ""},
		"because":     {Because("ContextEnded", "It is over."), http.StatusForbidden, metav1.StatusReasonForbidden, "It is over.", "ContextEnded"},
		"invalid":     {Invalid("spec.x", "it is wrong"), http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "spec.x: it is wrong", "FieldValueInvalid"},
		"conflict":    {Conflict("Again."), http.StatusConflict, metav1.StatusReasonConflict, "Again.", ""},
		"too many":    {TooMany("Enough."), http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Enough.", ""},
		"unavailable": {Unavailable("Later.", secret), http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "Later.", ""},
		"other":       {secret, http.StatusInternalServerError, metav1.StatusReasonInternalError, "its log says more", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, handler := range []func(Step) admission.Handler{Mutating, Validating} {
				response := handler(func(context.Context, *Review) error { return tc.err }).Handle(t.Context(), review(t, admissionv1.Create, small, ""))
				assert.False(t, response.Allowed)
				assert.Equal(t, tc.wantCode, response.Result.Code)
				assert.Equal(t, tc.wantReason, response.Result.Reason)
				assert.Contains(t, response.Result.Message, tc.wantText)
				assert.NotContains(t, response.Result.Message, "10.0.0.1")
				if tc.wantCause != "" {
					assert.EqualValues(t, tc.wantCause, response.Result.Details.Causes[0].Type)
				}
			}
		})
	}
}

func TestObjectsThatAreNotJSONAreRefused(t *testing.T) {
	h := Validating(func(context.Context, *Review) error { return nil })
	assert.True(t, h.Handle(t.Context(), review(t, admissionv1.Update, small, small)).Allowed)
	assert.False(t, h.Handle(t.Context(), review(t, admissionv1.Create, "{", "")).Allowed)
	assert.False(t, h.Handle(t.Context(), review(t, admissionv1.Update, small, "[]")).Allowed)
}

func plain(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal([]byte(text), &u.Object))
	return u
}

func TestPutBack(t *testing.T) {
	tests := map[string]struct{ have, old, want string }{
		"nothing lacks":          {`{"spec":{"a":1}}`, `{"spec":{"a":1}}`, `{"spec":{"a":1}}`},
		"field":                  {`{"spec":{"a":1}}`, `{"spec":{"a":1,"b":{"c":2}}}`, `{"spec":{"a":1,"b":{"c":2}}}`},
		"field of a field":       {`{"spec":{"b":{}}}`, `{"spec":{"b":{"c":2}}}`, `{"spec":{"b":{"c":2}}}`},
		"null":                   {`{"spec":{"b":null}}`, `{"spec":{"b":{"c":2}}}`, `{"spec":{"b":{"c":2}}}`},
		"whole spec":             {`{}`, `{"spec":{"a":1}}`, `{"spec":{"a":1}}`},
		"what differs stays":     {`{"spec":{"a":2}}`, `{"spec":{"a":1}}`, `{"spec":{"a":2}}`},
		"what is new stays":      {`{"spec":{"b":2}}`, `{"spec":{"a":1}}`, `{"spec":{"a":1,"b":2}}`},
		"another form stays":     {`{"spec":{"a":[1]}}`, `{"spec":{"a":{"b":1}}}`, `{"spec":{"a":[1]}}`},
		"lists are not merged":   {`{"spec":{"a":[1]}}`, `{"spec":{"a":[1,2]}}`, `{"spec":{"a":[1]}}`},
		"nothing was there":      {`{"spec":{"a":1}}`, `{}`, `{"spec":{"a":1}}`},
		"other fields are alone": {`{"spec":{},"data":{}}`, `{"spec":{},"data":{"a":1}}`, `{"spec":{},"data":{}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			u := plain(t, tc.have)
			PutBack(u, plain(t, tc.old), "spec")
			assert.Equal(t, plain(t, tc.want), u)
		})
	}
}

func TestKeepOwnershipLetsFinalizersGo(t *testing.T) {
	old, u := &unstructured.Unstructured{Object: map[string]any{}}, &unstructured.Unstructured{Object: map[string]any{}}
	old.SetOwnerReferences([]metav1.OwnerReference{{Kind: "A", UID: "a"}})
	old.SetFinalizers([]string{"foregroundDeletion", "x"})
	u.SetOwnerReferences([]metav1.OwnerReference{{Kind: "B", UID: "b"}})
	u.SetFinalizers([]string{"x", "new"})
	collected := u.DeepCopy()
	KeepOwnership(u, old, &Caller{})
	assert.Equal(t, old.GetOwnerReferences(), u.GetOwnerReferences())
	assert.Equal(t, []string{"x"}, u.GetFinalizers())

	collector := CallerOf(authenticationv1.UserInfo{Username: "system:serviceaccount:kube-system:generic-garbage-collector"})
	KeepOwnership(collected, old, &collector)
	assert.EqualValues(t, "b", collected.GetOwnerReferences()[0].UID)
	assert.Equal(t, []string{"x"}, collected.GetFinalizers())
}

func TestLabels(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	SetLabels(u, map[string]string{"a": "1", "b": ""})
	assert.Equal(t, map[string]string{"a": "1"}, u.GetLabels())
	changed := u.DeepCopy()
	changed.SetLabels(map[string]string{"a": "2", "mine": "3", "b": "4"})
	KeepLabels(changed, u, "a", "b")
	assert.Equal(t, map[string]string{"a": "1", "mine": "3"}, changed.GetLabels())
	SetLabels(u, map[string]string{"a": ""})
	assert.Nil(t, u.GetLabels())
}

func TestSetAnnotations(t *testing.T) {
	tests := map[string]struct {
		have string
		set  map[string]string
		want string
	}{
		"set":                     {`{"metadata":{}}`, map[string]string{"a": "1"}, `{"metadata":{"annotations":{"a":"1"}}}`},
		"replaced, others stay":   {`{"metadata":{"annotations":{"a":"2","b":"3"}}}`, map[string]string{"a": "1"}, `{"metadata":{"annotations":{"a":"1","b":"3"}}}`},
		"taken away":              {`{"metadata":{"annotations":{"a":"2","b":"3"}}}`, map[string]string{"a": ""}, `{"metadata":{"annotations":{"b":"3"}}}`},
		"the last is taken away":  {`{"metadata":{"annotations":{"a":"2"}}}`, map[string]string{"a": ""}, `{"metadata":{}}`},
		"an empty one goes":       {`{"metadata":{"annotations":{"a":"","b":""}}}`, map[string]string{"a": ""}, `{"metadata":{"annotations":{"b":""}}}`},
		"as it was spelled":       {`{"metadata":{"annotations":{}}}`, map[string]string{"a": ""}, `{"metadata":{"annotations":{}}}`},
		"as it was spelled, null": {`{"metadata":{"annotations":{"a":"1","b":null}}}`, map[string]string{"a": "1"}, `{"metadata":{"annotations":{"a":"1","b":null}}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			u := plain(t, tc.have)
			SetAnnotations(u, tc.set)
			assert.Equal(t, plain(t, tc.want), u)
		})
	}
}

func TestReadable(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "", `{"metadata":{}}`: "", `{"metadata":{"labels":{"a":null},"annotations":null}}`: "",
		`{"metadata":5}`: "metadata.labels", `{"metadata":{"labels":{"a":1}}}`: "metadata.labels", `{"metadata":{"annotations":["a"]}}`: "metadata.annotations",
	} {
		err := Readable(plain(t, text))
		if want == "" {
			assert.NoError(t, err, text)
			continue
		}
		assert.ErrorContains(t, err, want, text)
	}
}
