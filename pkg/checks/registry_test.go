package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

var gate = schema.GroupKind{Group: "example.com", Kind: "Gate"}

func TestRegistryFollowsCheckKinds(t *testing.T) {
	var changes []schema.GroupKind
	r := &Registry{}
	r.OnChange(func(gk schema.GroupKind) { changes = append(changes, gk) })
	handler := r.Handler()

	_, ok := r.Lookup(gate)
	require.False(t, ok)

	handler.OnAdd(makeCheckKind(), true)
	kind, ok := r.Lookup(gate)
	require.True(t, ok)
	require.NoError(t, kind.Ready())
	assert.Len(t, changes, 1)

	handler.OnUpdate(nil, makeCheckKind())
	assert.Len(t, changes, 1, "an echo is no change")

	handler.OnUpdate(nil, makeCheckKind(func(ck *approvalv1alpha1.CheckKind) { ck.Spec.State = &approvalv1alpha1.StateReader{CEL: "1 +"} }))
	kind, _ = r.Lookup(gate)
	assert.ErrorContains(t, kind.Ready(), "InvalidExpression", "one that does not compile is there and says so")
	assert.Len(t, changes, 2)

	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: makeCheckKind()})
	_, ok = r.Lookup(gate)
	assert.False(t, ok)
	assert.Equal(t, []schema.GroupKind{gate, gate, gate}, changes)
	assert.Empty(t, r.Kinds())
}

func TestRegistryDeleteOfAStranger(t *testing.T) {
	r := &Registry{}
	r.Set(makeCheckKind())
	r.Delete("other.example.com")
	assert.Len(t, r.Kinds(), 1)
}
