package world

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/test/bench/await"
)

// oneOwner is a check that one owner answers.
const oneOwner = `{"policies":[{"name":"owners","approvers":[{"type":"Group","name":"prod-owners"}],"numberOfApprovalsRequired":1}]}`

// Protect makes a connector to a tool at a plain HTTP address, with a rule of the same name by which every use,
// reads too, needs one owner; and waits until the rule is Ready.
func (w *World) Protect(ctx context.Context, name, address string) error {
	connector := &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: Protected, Name: name},
		Spec:       connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "any", Address: address, RequireChecks: true},
	}
	rule := &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: Protected, Name: name},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef: objectRef(name),
			When:      everyUse(),
			CheckTemplate: approvalv1alpha1.CheckTemplate{
				APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "ApprovalRequest", Spec: runtime.RawExtension{Raw: []byte(oneOwner)},
			},
		},
	}
	for _, object := range []client.Object{connector, rule} {
		if err := w.As(Admin).Create(ctx, object); err != nil {
			return fmt.Errorf("%s cannot be protected: %w", name, err)
		}
	}
	return await.Until(ctx, "the rule of "+name+" becomes ready", func(ctx context.Context) error {
		if err := w.As(Admin).Get(ctx, client.ObjectKeyFromObject(rule), rule); err != nil {
			return err
		}
		return isReady(rule.Status.Conditions)
	})
}

func objectRef(connector string) approvalv1alpha1.ObjectReference {
	return approvalv1alpha1.ObjectReference{
		APIVersion: connectorsv1alpha1.GroupVersion.String(), Kind: connectorsv1alpha1.KindConnector, Namespace: Protected, Name: connector,
	}
}

func everyUse() *approvalv1alpha1.OperationSelector {
	return &approvalv1alpha1.OperationSelector{
		Operations: []approvalv1alpha1.OperationClass{approvalv1alpha1.OperationRead, approvalv1alpha1.OperationWrite},
	}
}

func isReady(conditions []metav1.Condition) error {
	ready := apimeta.FindStatusCondition(conditions, approvalv1alpha1.ConditionReady)
	switch {
	case ready == nil:
		return errors.New("there is no condition Ready yet")
	case ready.Status != metav1.ConditionTrue:
		return fmt.Errorf("the condition Ready is %s (%s: %s)", ready.Status, ready.Reason, ready.Message)
	}
	return nil
}

// LetRead allows everybody who is known to the API server to get a path that belongs to no resource: the permission
// that kube-rbac-proxy looks up.
func (w *World) LetRead(ctx context.Context, path string) error {
	const name = "bench-peer"
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{path}, Verbs: []string{"get"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
	}
	return errors.Join(w.As(Admin).Create(ctx, role), w.As(Admin).Create(ctx, binding))
}
