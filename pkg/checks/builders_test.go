package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// makeCheckKind is a ready CheckKind of a foreign kind.
func makeCheckKind(edit ...func(*approvalv1alpha1.CheckKind)) *approvalv1alpha1.CheckKind {
	ck := &approvalv1alpha1.CheckKind{
		ObjectMeta: metav1.ObjectMeta{Name: "gate.example.com", UID: types.UID("ck-1"), Generation: 1},
		Spec:       approvalv1alpha1.CheckKindSpec{APIVersion: "example.com/v1", Kind: "Gate"},
		Status: approvalv1alpha1.CheckKindStatus{Conditions: []metav1.Condition{{
			Type: approvalv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: approvalv1alpha1.ReasonReady, ObservedGeneration: 1,
		}}},
	}
	for _, e := range edit {
		e(ck)
	}
	return ck
}

func compile(t *testing.T, edit ...func(*approvalv1alpha1.CheckKind)) *Kind {
	t.Helper()
	kind, err := Compile(makeCheckKind(edit...))
	require.NoError(t, err)
	return kind
}

func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := map[string]any{}
	require.NoError(t, utiljson.Unmarshal([]byte(text), &object))
	return &unstructured.Unstructured{Object: object}
}
