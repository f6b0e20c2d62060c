package gate

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// stored is a granted request as the API server delivers it: every text in memory of its own, with the parts that no
// decision reads.
func stored(b *testing.B, number int) *unstructured.Unstructured {
	b.Helper()
	typed := request(fmt.Sprintf("rcr-3fk2mvq7xw5n-%010d", number), fmt.Sprintf("somebody.with.a.name.%d@example.com", number))
	typed.UID = types.UID(uuid.NewString())
	typed.Spec.Reason = "promote 1.4.2"
	typed.Spec.ObjectRef.UID = types.UID(uuid.NewString())
	typed.Spec.RequestedBy = &approvalv1alpha1.Identity{Username: typed.Spec.Context.Subject.Name, Groups: []string{"developers"}}
	typed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "countersign-controller", Operation: metav1.ManagedFieldsOperationApply}}
	status := &typed.Status
	status.Fingerprint = keyFor(typed.Spec.Context.Subject.Name).String()
	status.Object = &approvalv1alpha1.ObjectSnapshot{UID: typed.Spec.ObjectRef.UID, Generation: 3}
	status.Validity = &approvalv1alpha1.Validity{NotBefore: metav1.NewTime(epoch), NotAfter: metav1.NewTime(epoch.Add(time.Hour))}
	for _, rule := range []string{"prod-harbor-push", "prod-harbor-window"} {
		uid := types.UID(uuid.NewString())
		status.Rules = append(status.Rules, approvalv1alpha1.RuleSnapshot{Name: rule, UID: uid, Generation: 1})
		status.Results = append(status.Results, approvalv1alpha1.CheckResult{
			Name: rule, UID: uid, Generation: 1, State: duckv1alpha1.CheckApproved, Message: "approved by 2 of 2",
			DecidedBy: []duckv1alpha1.CheckDecision{{Username: "owner1@example.com", Decision: "Approve", Comment: "the tests are green"}},
		})
	}
	typed.APIVersion, typed.Kind = approvalv1alpha1.GroupVersion.String(), "ResourceCheckRequest"
	text, err := json.Marshal(typed)
	require.NoError(b, err)
	u := &unstructured.Unstructured{}
	require.NoError(b, u.UnmarshalJSON(text))
	return u
}

// BenchmarkMemoryPerRequest prints what the gate holds of a granted request with two rules; the goal is 1.5 KiB.
func BenchmarkMemoryPerRequest(b *testing.B) {
	const requests = 20_000
	for b.Loop() {
		g := &Gate{index: newIndex(), inbox: newInbox(), changes: newChanges()}
		m := g.mirror(nil, approvalv1alpha1.GroupVersion.WithResource("resourcecheckrequests"), g.setAsked, g.forgetAsked)
		before := held()
		for i := range requests {
			require.NoError(b, m.Add(stored(b, i)))
		}
		b.ReportMetric(float64(held()-before)/requests, "B/request")
		runtime.KeepAlive(m)
		runtime.KeepAlive(g)
	}
}

// held is the live heap, in bytes.
func held() int64 {
	runtime.GC()
	runtime.GC() // the first one only moves pools aside
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
