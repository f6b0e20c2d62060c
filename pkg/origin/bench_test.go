package origin

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// taskPod is a pod as Tekton makes it, as far as a Node keeps it.
func taskPod(i int) *unstructured.Unstructured {
	uid := func(kind string) string { return fmt.Sprintf("%s%07d-1111-2222-3333-444444444444", kind, i) }
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"namespace": "apps-production", "name": fmt.Sprintf("promote-release-%07d-push-image-pod", i), "uid": uid("a"),
			"creationTimestamp": "2025-01-02T03:04:05Z",
			"annotations": map[string]any{
				"attribution.alaudadevops.io/created-by": tektonController, "attribution.alaudadevops.io/created-for": uid("b"),
			},
			"ownerReferences": []any{map[string]any{
				"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": fmt.Sprintf("promote-release-%07d-push-image", i), "uid": uid("b"), "controller": true,
			}},
		},
		"spec":   map[string]any{"serviceAccountName": "deployer"},
		"status": map[string]any{"phase": "Running"},
	}}
}

// BenchmarkMemoryPerPod prints what a cache holds for one pod.
func BenchmarkMemoryPerPod(b *testing.B) {
	const pods = 20_000
	for b.Loop() {
		s := newStore(func(Change) {})
		before := heap()
		for i := range pods {
			if err := s.Add(taskPod(i)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heap()-before)/pods, "B/pod")
		runtime.KeepAlive(s)
	}
	b.ReportMetric(0, "ns/op")
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkKeptClimb(b *testing.B) {
	pod := node("Pod", "pod", "alice", nil)
	c := climber(&fakeSource{nodes: []*Node{pod}})
	name := podName(pod)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Climb(b.Context(), name, "pod", run); err != nil {
			b.Fatal(err)
		}
	}
}
