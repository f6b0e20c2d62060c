package announce

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestANoteIsCutBetweenRunes(t *testing.T) {
	assert.Equal(t, "short", Note("short"))
	long := Note(strings.Repeat("王", maxNote))
	assert.LessOrEqual(t, len(long), maxNote)
	assert.True(t, utf8.ValidString(long))
	assert.Equal(t, "王", long[:3])
}

func thing(uid types.UID) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "thing", UID: uid}}
}

func TestNewsIsSaidOnce(t *testing.T) {
	var told Told
	reader := fake.NewClientBuilder().WithObjects(thing("a")).Build()
	assert.True(t, told.Say(t.Context(), reader, thing("a"), "Waits"))
	assert.False(t, told.Say(t.Context(), reader, thing("a"), "Waits"))
	assert.True(t, told.Say(t.Context(), reader, thing("a"), "Done"))
	assert.Equal(t, "Done", told.Last("a"))
	told.Forget("a")
	assert.Empty(t, told.Last("a"))
}

func TestNothingIsKeptOfWhatIsGone(t *testing.T) {
	var told Told
	reader := fake.NewClientBuilder().WithObjects(thing("a")).Build()
	assert.True(t, told.Say(t.Context(), reader, thing("older"), "Waits"), "another has taken the name")
	require.NoError(t, reader.Delete(t.Context(), thing("a")))
	assert.True(t, told.Say(t.Context(), reader, thing("a"), "Waits"), "its deletion was handled meanwhile")
	assert.Empty(t, told.reasons)
}
