package release

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// authored gives the Release an author whom the directory knows.
func authored(name string) change {
	return func(f *facts) {
		f.release.Annotations[approvalv1alpha1.AnnotationAuthor] = name
		f.check.Status.Author = &approvalv1alpha1.Author{Username: name}
	}
}

// A pipeline would replace such a text in a parameter once more, by a result of one of its tasks for example.
func TestS18_ANameThatTektonWouldExpandIsNotHandedOn(t *testing.T) {
	s := compute(newFacts(authored("$(tasks.login.results.token)")))
	assert.Nil(t, s.start)
	failed := apimeta.FindStatusCondition(s.status.Conditions, releasev1alpha1.ConditionValidated)
	require.NotNil(t, failed)
	assert.Equal(t, metav1.ConditionFalse, failed.Status)
	assert.Contains(t, failed.Message, "would expand")

	plain := compute(newFacts(authored("us$r(one)")))
	require.NotNil(t, plain.start, "a name that stands for nothing is kept as it is")
}

func TestS18_ConditionsOfAReleaseCannotDraw(t *testing.T) {
	const draws = "eve\x1b[2J\u202e\u2028bob"
	for name, changes := range map[string][]change{
		"passed":   {authored(draws)},
		"rejected": {authored(draws), refuses(approvalv1alpha1.ReasonAuthorUnknown, draws+" has left")},
		"failed":   {authored(draws), func(f *facts) { f.plan = nil }},
	} {
		s := compute(newFacts(changes...))
		require.NotEmpty(t, s.status.Conditions)
		for _, c := range s.status.Conditions {
			assert.NotContains(t, c.Message, "\x1b", name)
			assert.NotContains(t, c.Message, "\u202e", name)
			assert.NotContains(t, c.Message, "\u2028", name)
		}
	}
}

// The schema bounds what a status shows. A longer name is nobody's in any directory, and a status that can never be written
// would be tried for ever.
func TestS3_ANameThatNoStatusCanShowEndsTheRelease(t *testing.T) {
	s := compute(newFacts(authored(strings.Repeat("a", 5000))))
	failed := apimeta.FindStatusCondition(s.status.Conditions, releasev1alpha1.ConditionValidated)
	require.NotNil(t, failed)
	assert.Equal(t, metav1.ConditionFalse, failed.Status)
	assert.Nil(t, s.status.Attribution, "a shortened name might be another's")
	assert.LessOrEqual(t, len(failed.Message), 32*1024)
}

// A run that nobody was recorded to have made gets our name from whoever may migrate. That informs people, and proves
// nothing.
func TestS2_AnAssignedCreatorMakesNoRunOurs(t *testing.T) {
	assigned := func(f *facts) {
		f.run.SetAnnotations(map[string]string{approvalv1alpha1.AnnotationCreatedBy: ownName, approvalv1alpha1.AnnotationMigratedBy: "mallory"})
	}
	for name, changes := range map[string][]change{
		"first seen": {runsAs(metav1.ConditionTrue, "Completed", ""), assigned},
		"later":      {runsAs(metav1.ConditionTrue, "Completed", ""), started, assigned},
	} {
		s := compute(newFacts(changes...))
		assert.Contains(t, s.told(releasev1alpha1.ConditionReleased), "was not made by this controller", name)
	}
}
