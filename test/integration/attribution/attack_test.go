package attribution

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

// deployed is a Deployment of the owners that the user makes.
func (w *world) deployed(user string) *appsv1.Deployment {
	w.t.Helper()
	labels := map[string]string{"app": "shop"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "shop"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/shop"}}},
		}},
	}
	w.create(trusted(w.t, user), deployment)
	return deployment
}

// A rule may ask who answers for an object. Whoever made it once does not, for what a program has put into it since.
func TestS1_NobodyAnswersForWhatOthersPutIntoHisResource(t *testing.T) {
	const gina = "gina@example.com"
	staff.knows(gina, "Gina")
	for by, want := range map[string]struct {
		state  duckv1alpha1.CheckState
		reason string
	}{
		"":                   {duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed},
		gina:                 {duckv1alpha1.CheckApproved, approvalv1alpha1.ReasonAttributed},
		robot:                {duckv1alpha1.CheckRejected, approvalv1alpha1.ReasonOnlyRobot},
		"leaver@example.com": {duckv1alpha1.CheckRejected, approvalv1alpha1.ReasonAuthorUnknown},
	} {
		t.Run("changed by "+by, func(t *testing.T) {
			w := newWorld(t).rule(`{"resource":{"apiVersion":"apps/v1","kind":"Deployment","name":"shop"}}`)
			deployment := w.deployed(gina)
			if by != "" {
				image := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"example.com/another"}]}}}}`)
				require.NoError(t, trusted(t, by).Patch(t.Context(), deployment, client.RawPatch(types.StrategicMergePatchType, image)))
			}
			status := w.answered(w.askFor(gina, "build-1"), w.owners, want.state, want.reason)
			assert.Contains(t, status.Message, "Deployment "+w.owners+"/shop")
			assert.Equal(t, by == "" || by == gina, status.Verified)
		})
	}
}
