package creator

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// access lets one user do one thing, cluster-wide.
type access struct {
	user, verb string
	err        error
	asked      int
}

func (a *access) Allowed(_ context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (bool, string, error) {
	a.asked++
	return user.Username == a.user && attrs.Verb == a.verb && attrs.Group == approvalv1alpha1.AuthorityGroup && attrs.Namespace == "", "", a.err
}

const (
	by    = approvalv1alpha1.AnnotationCreatedBy
	owned = approvalv1alpha1.AnnotationCreatedFor
	last  = approvalv1alpha1.AnnotationChangedBy
	moved = approvalv1alpha1.AnnotationMigratedBy
)

func object(annotations map[string]string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Any"}}
	for name, value := range fields {
		u.Object[name] = value
	}
	u.SetAnnotations(annotations)
	return u
}

func review(user string, now, old *unstructured.Unstructured) *admit.Review {
	r := &admit.Review{
		Caller: admit.CallerOf(authenticationv1.UserInfo{Username: user}), Operation: admissionv1.Update, Object: now, Old: old,
		Resource: schema.GroupResource{Resource: "any"},
	}
	if old == nil {
		r.Operation = admissionv1.Create
	}
	return r
}

func TestMutateWritesTheRecord(t *testing.T) {
	spec := func(value any) map[string]any { return map[string]any{"spec": value} }
	data := func(value any) map[string]any { return map[string]any{"data": value} }
	alices := map[string]string{by: "alice", last: "alice"}
	bobs := map[string]string{by: "alice", last: "bob"}
	forged := map[string]string{by: "olga", owned: "1", last: "olga", moved: "olga"}
	tests := map[string]struct {
		user     string
		now, old *unstructured.Unstructured
		edit     func(*admit.Review)
		want     map[string]string
	}{
		"created":                      {"alice", object(nil, nil), nil, nil, alices},
		"forged on create":             {"alice", object(forged, nil), nil, nil, alices},
		"created by nobody":            {"", object(forged, nil), nil, nil, nil},
		"created by anonymous":         {"system:anonymous", object(forged, nil), nil, nil, nil},
		"nothing changed":              {"bob", object(alices, spec("a")), object(alices, spec("a")), nil, alices},
		"forged on update":             {"bob", object(forged, spec("a")), object(alices, spec("a")), nil, alices},
		"removed":                      {"bob", object(nil, spec("a")), object(alices, spec("a")), nil, alices},
		"emptied":                      {"bob", object(map[string]string{by: "", owned: "", last: "", moved: ""}, nil), object(alices, nil), nil, alices},
		"spec changed":                 {"bob", object(alices, spec("b")), object(alices, spec("a")), nil, bobs},
		"spec changed by nobody":       {"", object(alices, spec("b")), object(alices, spec("a")), nil, map[string]string{by: "alice"}},
		"spec appeared":                {"bob", object(alices, spec("b")), object(alices, nil), nil, bobs},
		"spec went":                    {"bob", object(alices, nil), object(alices, spec("a")), nil, bobs},
		"status changed":               {"bob", object(alices, map[string]any{"status": "b"}), object(alices, map[string]any{"status": "a"}), nil, alices},
		"data changed":                 {"bob", object(alices, data("b")), object(alices, data("a")), nil, bobs},
		"data appeared":                {"bob", object(alices, data("b")), object(alices, nil), nil, bobs},
		"data went":                    {"bob", object(alices, nil), object(alices, data("a")), nil, bobs},
		"data beside a spec changed":   {"bob", object(alices, map[string]any{"spec": "a", "data": "b"}), object(alices, spec("a")), nil, alices},
		"spec in another order":        {"bob", object(alices, spec([]any{"a", "b"})), object(alices, spec([]any{"b", "a"})), nil, bobs},
		"spec through a subresource":   {"bob", object(forged, spec("b")), object(alices, spec("a")), func(r *admit.Review) { r.SubResource = "resize" }, alices},
		"none before":                  {"bob", object(forged, spec("a")), object(nil, spec("a")), nil, nil},
		"none before, content changed": {"bob", object(forged, spec("b")), object(nil, spec("a")), nil, map[string]string{last: "bob"}},
		"migrated":                     {"migrator", object(forged, spec("a")), object(nil, spec("a")), nil, map[string]string{by: "olga", moved: "migrator"}},
		"migrated with an empty one":   {"migrator", object(forged, spec("a")), object(map[string]string{by: ""}, spec("a")), nil, map[string]string{by: "olga", moved: "migrator"}},
		"migrated through a subresource": {
			"migrator", object(forged, nil), object(nil, nil), func(r *admit.Review) { r.SubResource = "status" }, nil,
		},
		"migrated twice": {
			"migrator", object(forged, nil), object(map[string]string{by: "alice", moved: "other"}, nil), nil, map[string]string{by: "alice", moved: "other"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := New(&access{user: "migrator", verb: approvalv1alpha1.VerbMigrate})
			r := review(tc.user, tc.now, tc.old)
			if tc.edit != nil {
				tc.edit(r)
			}
			require.NoError(t, w.Mutate(t.Context(), r))
			assert.Empty(t, cmp.Diff(tc.want, r.Object.GetAnnotations(), cmpopts.EquateEmpty()))
			assert.NoError(t, w.Validate(t.Context(), r), "what one sets the other asserts")
			before := r.Object.DeepCopy()
			require.NoError(t, w.Mutate(t.Context(), r))
			assert.Equal(t, before, r.Object, "another time changes nothing")
		})
	}
}

func TestValidateRefusesWhatDiffers(t *testing.T) {
	w := New(&access{})
	alices := map[string]string{by: "alice", last: "alice"}
	for name, annotations := range map[string]map[string]string{
		"another creator": {by: "mallory", last: "alice"},
		"no creator":      {last: "alice"},
		"an owner":        {by: "alice", last: "alice", owned: "1"},
		"a migrator":      {by: "alice", last: "alice", moved: "alice"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorContains(t, w.Validate(t.Context(), review("alice", object(annotations, nil), nil)), "look for an admission webhook")
			assert.ErrorContains(t, w.Validate(t.Context(), review("bob", object(annotations, nil), object(alices, nil))), "look for an admission webhook")
		})
	}
}

func TestCreatedForIsTheControllerOwner(t *testing.T) {
	w := New(&access{})
	owners := []metav1.OwnerReference{{UID: "a"}, {UID: "b", Controller: ptr.To(true)}, {UID: "c", Controller: ptr.To(true)}}
	now := object(nil, nil)
	now.SetOwnerReferences(owners)
	require.NoError(t, w.Mutate(t.Context(), review("alice", now, nil)))
	assert.Equal(t, "b", now.GetAnnotations()[owned])

	for i := range maxOwners {
		owners = append(owners, metav1.OwnerReference{UID: types.UID(rune(i))})
	}
	crowd := object(nil, nil)
	crowd.SetOwnerReferences(owners)
	r := review("alice", crowd, nil)
	require.NoError(t, w.Mutate(t.Context(), r))
	assert.NotContains(t, crowd.GetAnnotations(), owned)
	assert.ErrorContains(t, w.Validate(t.Context(), r), "more than 100 owner references")
}

func TestOnlyAMigrationIsAskedAbout(t *testing.T) {
	failing := &access{err: errors.New("down")}
	w := New(failing)
	alices := map[string]string{by: "alice"}
	require.NoError(t, w.Mutate(t.Context(), review("bob", object(nil, nil), nil)))
	require.NoError(t, w.Mutate(t.Context(), review("bob", object(alices, nil), object(alices, nil))))
	assert.Zero(t, failing.asked, "ordinary writes cost no question")
	err := w.Mutate(t.Context(), review("bob", object(alices, nil), object(nil, nil)))
	assert.ErrorContains(t, err, "try again in a moment", "an error is no yes")
}

func TestMutateLabelledPutsBackWhatMarksACheck(t *testing.T) {
	w := New(&access{})
	marked := func() *unstructured.Unstructured {
		u := object(map[string]string{by: "c", approvalv1alpha1.AnnotationContext: "{}"}, nil)
		u.SetLabels(map[string]string{approvalv1alpha1.LabelRequestUID: ""})
		u.SetOwnerReferences([]metav1.OwnerReference{{UID: "a"}})
		return u
	}
	stripped := object(nil, nil)
	require.NoError(t, w.MutateLabelled(t.Context(), review("mallory", stripped, marked())))
	assert.Equal(t, marked(), stripped)

	collected := marked()
	collected.SetOwnerReferences(nil)
	require.NoError(t, w.MutateLabelled(t.Context(), review(collectors[0], collected, marked())))
	assert.Empty(t, collected.GetOwnerReferences(), "the collector may")

	unmarked := object(map[string]string{approvalv1alpha1.AnnotationContext: "theirs"}, nil)
	unmarked.SetLabels(map[string]string{approvalv1alpha1.LabelRequestUID: "1"})
	require.NoError(t, w.MutateLabelled(t.Context(), review("mallory", unmarked, object(nil, nil))))
	assert.Equal(t, "theirs", unmarked.GetAnnotations()[approvalv1alpha1.AnnotationContext], "the validating policy refuses it")

	created := marked()
	require.NoError(t, w.MutateLabelled(t.Context(), review("c", created, nil)))
	assert.Equal(t, "c", created.GetAnnotations()[by])
}

func TestMutateOwnership(t *testing.T) {
	owner := []metav1.OwnerReference{{UID: "a"}}
	with := func(owners []metav1.OwnerReference, finalizers ...string) *unstructured.Unstructured {
		u := object(nil, nil)
		u.SetOwnerReferences(owners)
		u.SetFinalizers(finalizers)
		return u
	}
	tests := map[string]struct {
		user, resource string
		now, old, want *unstructured.Unstructured
	}{
		"a request with an owner":         {"mallory", "resourcecheckrequests", with(owner, "f"), nil, with(nil)},
		"a request of the controller":     {"controller", "resourcecheckrequests", with(owner), nil, with(owner)},
		"a check":                         {"mallory", "approvalrequests", with(owner), nil, with(owner)},
		"an owner added":                  {"controller", "approvalrequests", with(owner), with(nil), with(nil)},
		"an owner removed":                {"mallory", "approvalrequests", with(nil), with(owner), with(owner)},
		"an owner removed by a collector": {collectors[1], "approvalrequests", with(nil), with(owner), with(nil)},
		"a finalizer added":               {"mallory", "approvalrequests", with(nil, "f", "g"), with(nil, "f"), with(nil, "f")},
		"a finalizer twice":               {"mallory", "approvalrequests", with(nil, "f", "f"), with(nil, "f"), with(nil, "f")},
		"a finalizer removed":             {"mallory", "approvalrequests", with(nil), with(nil, "f"), with(nil)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := review(tc.user, tc.now, tc.old)
			r.Resource.Resource = tc.resource
			require.NoError(t, New(&access{user: "controller", verb: approvalv1alpha1.VerbDecide}).MutateOwnership(t.Context(), r))
			assert.Equal(t, tc.want.GetOwnerReferences(), r.Object.GetOwnerReferences())
			assert.Equal(t, tc.want.GetFinalizers(), r.Object.GetFinalizers())
		})
	}
}
