package attribution

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

func clientOf(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// acting returns a client of the user, whatever the name, who may do whatever the groups may.
func acting(t testing.TB, user string, groups ...string) client.Client {
	t.Helper()
	config := cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return clientOf(t, config)
}

// trusted is a user who may do everything, so that only attribution can be in his way.
func trusted(t testing.TB, user string) client.Client {
	t.Helper()
	return acting(t, user, "system:masters")
}

// controllerItself is our controller, with the rights that are shipped.
func controllerItself(t testing.TB) client.Client {
	t.Helper()
	return acting(t, controllerUser, "system:serviceaccounts", "system:serviceaccounts:"+systemNamespace)
}

func eventually(t testing.TB, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		if now := condition(ctx); ctx.Err() == nil {
			last = now
		}
		return last == nil, nil
	})
	require.NoError(t, err, "at last: %v", last)
}

// world is an owner's namespace with a connector, and a requester's.
type world struct {
	t              testing.TB
	admin          client.Client
	owners, asking string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, admin: clientOf(t, cluster.Admin()), owners: cluster.Namespace(t), asking: cluster.Namespace(t)}
	w.create(w.admin, &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "harbor"},
		Spec:       connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "oci", Address: "https://harbor.example.com"},
	})
	w.create(w.admin, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "users"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"connectors.alaudadevops.io"}, Resources: []string{"connectors/apis"}, Verbs: []string{"read", "write"}}},
	})
	w.create(w.admin, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "users"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "users"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts:" + w.asking}},
	})
	return w
}

func (w *world) create(as client.Client, object client.Object) {
	w.t.Helper()
	require.NoError(w.t, as.Create(w.t.Context(), object))
}

// rule guards the connector by one AttributionCheck with this spec, in JSON.
func (w *world) rule(spec string) *world {
	w.t.Helper()
	w.create(w.admin, w.makeRule(spec))
	return w
}

func (w *world) makeRule(spec string) *approvalv1alpha1.ResourceCheckRule {
	return &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.owners, Name: "accountable"},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Name: "harbor"},
			CheckTemplate: approvalv1alpha1.CheckTemplate{
				APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: "AttributionCheck", Spec: runtime.RawExtension{Raw: []byte(spec)},
			},
		},
	}
}

// run is a Job that the user starts; it waits for nobody's node.
func (w *world) run(user, name string) *batchv1.Job {
	w.t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.asking, Name: name},
		Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "example.com/image"}},
		}}},
	}
	w.create(trusted(w.t, user), job)
	return job
}

// ask asks for the connector as the user, for a run or, if that is empty, for himself.
func (w *world) ask(user, run string) *approvalv1alpha1.ResourceCheckRequest {
	w.t.Helper()
	request := &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.asking, GenerateName: "rcr-"},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Namespace: w.owners, Name: "harbor"},
			Reason:    "push",
		},
	}
	if run != "" {
		request.Spec.Context.Resource = &approvalv1alpha1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Name: run}
	}
	w.create(trusted(w.t, user), request)
	return request
}

// askFor starts a run as the user and asks for it.
func (w *world) askFor(user, run string) *approvalv1alpha1.ResourceCheckRequest {
	w.t.Helper()
	w.run(user, run)
	return w.ask(user, run)
}

// settles waits until the request is ready or not for the reason.
func (w *world) settles(request *approvalv1alpha1.ResourceCheckRequest, reason string) *approvalv1alpha1.ResourceCheckRequest {
	w.t.Helper()
	seen := &approvalv1alpha1.ResourceCheckRequest{}
	eventually(w.t, func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(request), seen); err != nil {
			return err
		}
		ready := apimeta.FindStatusCondition(seen.Status.Conditions, approvalv1alpha1.ConditionReady)
		if ready == nil || ready.Reason != reason {
			return fmt.Errorf("the request says %+v and not %s", ready, reason)
		}
		return nil
	})
	return seen
}

// answered waits until the request's one AttributionCheck has the state and the reason.
func (w *world) answered(request *approvalv1alpha1.ResourceCheckRequest, namespace string, state duckv1alpha1.CheckState, reason string) approvalv1alpha1.AttributionCheckStatus {
	w.t.Helper()
	var checks approvalv1alpha1.AttributionCheckList
	eventually(w.t, func(ctx context.Context) error {
		err := w.admin.List(ctx, &checks, client.InNamespace(namespace), client.MatchingLabels{approvalv1alpha1.LabelRequestUID: string(request.UID)})
		if err != nil {
			return err
		}
		if len(checks.Items) != 1 {
			return fmt.Errorf("there are %d checks", len(checks.Items))
		}
		if status := checks.Items[0].Status; status.State != state || status.Reason != reason {
			return fmt.Errorf("the check is %s (%s): %s", status.State, status.Reason, status.Message)
		}
		return nil
	})
	return checks.Items[0].Status
}
