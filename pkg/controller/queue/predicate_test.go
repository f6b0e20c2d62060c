package queue

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

func TestStatusWritesWakeNobody(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Generation: 1, ResourceVersion: "2"}}
		change(p)
		return p
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"status":     {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, false},
		"owner":      {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }, false},
		"spec":       {func(p *corev1.Pod) { p.Generation = 2 }, true},
		"label":      {func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, true},
		"annotation": {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, true},
	} {
		assert.Equal(t, tc.want, Meant().Update(event.UpdateEvent{ObjectOld: pod(func(*corev1.Pod) {}), ObjectNew: pod(tc.change)}), name)
	}
	assert.True(t, Meant().Create(event.CreateEvent{Object: pod(func(*corev1.Pod) {})}))
	assert.True(t, Meant().Delete(event.DeleteEvent{Object: pod(func(*corev1.Pod) {})}))
}
