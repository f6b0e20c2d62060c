package guarded

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// forgery is the creator that the probe claims.
const forgery = "countersign-probe"

// DryRunProber forges the creator of an ApprovalRequest that is never stored. The policy that puts it right is
// the one for pods as well; an ApprovalRequest needs no right that the controller does not have anyhow, and
// no other admission of a cluster objects to it.
type DryRunProber struct {
	client    dynamic.Interface
	namespace string
}

// NewDryRunProber returns a Prober that creates, as a dry run, in the system namespace.
func NewDryRunProber(client dynamic.Interface, namespace string) *DryRunProber {
	return &DryRunProber{client, namespace}
}

// Probe implements Prober.
func (p *DryRunProber) Probe(ctx context.Context) (time.Time, error) {
	resource := approvalv1alpha1.GroupVersion.WithResource("approvalrequests")
	made, err := p.client.Resource(resource).Namespace(p.namespace).Create(ctx, p.object(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return time.Time{}, err
	}
	if creator := made.GetAnnotations()[approvalv1alpha1.AnnotationCreatedBy]; creator == forgery || creator == "" {
		return time.Time{}, ErrNotInForce
	}
	at := made.GetCreationTimestamp().UTC()
	if at.IsZero() {
		return time.Time{}, errors.New("the API server gave the object of the dry run no creation time")
	}
	return at, nil
}

func (p *DryRunProber) object() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": approvalv1alpha1.GroupVersion.String(),
		"kind":       "ApprovalRequest",
		"metadata": map[string]any{
			"generateName": "probe-",
			"namespace":    p.namespace,
			"annotations":  map[string]any{approvalv1alpha1.AnnotationCreatedBy: forgery},
		},
		"spec": map[string]any{"policies": []any{map[string]any{
			"name":                      "probe",
			"approvers":                 []any{map[string]any{"type": "User", "name": forgery}},
			"numberOfApprovalsRequired": int64(1),
		}}},
	}}
}
