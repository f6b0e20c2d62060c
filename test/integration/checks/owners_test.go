package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

const goodTemplate = `{"policies":[{"name":"owners","approvers":[{"type":"Group","name":"prod-owners"}],"numberOfApprovalsRequired":1}]}`

func ruleFor(namespace, kind, spec string) *approvalv1alpha1.ResourceCheckRule {
	return &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "rule-"},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{APIVersion: connectorsv1alpha1.GroupVersion.String(), Kind: "Connector", Name: "harbor"},
			CheckTemplate: approvalv1alpha1.CheckTemplate{APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: kind,
				Spec: runtime.RawExtension{Raw: []byte(spec)}},
		},
	}
}

func ruleIs(reason string) func(*approvalv1alpha1.ResourceCheckRule) bool {
	return func(r *approvalv1alpha1.ResourceCheckRule) bool { return reasonOf(r.Status.Conditions) == reason }
}

func ruleMessage(r *approvalv1alpha1.ResourceCheckRule) string {
	return apimeta.FindStatusCondition(r.Status.Conditions, approvalv1alpha1.ConditionReady).Message
}

func TestRuleIsTriedAgainstTheAPIServer(t *testing.T) {
	tests := map[string]struct{ kind, spec, reason, message string }{
		"approval":          {"ApprovalRequest", goodTemplate, "Ready", "checks can be made from this rule"},
		"window":            {"TimeWindowCheck", `{"windows":[{"from":"09:00","to":"17:00"}]}`, "Ready", "checks can be made from this rule"},
		"script":            {"ScriptCheck", `{"expression":"true"}`, "Ready", "checks can be made from this rule"},
		"no approvers":      {"ApprovalRequest", `{"policies":[{"name":"owners","approvers":[],"numberOfApprovalsRequired":1}]}`, "InvalidTemplate", "spec.policies[0].approvers"},
		"group of everyone": {"ApprovalRequest", `{"policies":[{"name":"owners","approvers":[{"type":"Group","name":"system:authenticated"}],"numberOfApprovalsRequired":1}]}`, "InvalidTemplate", "a group beginning with system: cannot approve"},
		"wrong time":        {"TimeWindowCheck", `{"windows":[{"from":"9 o'clock","to":"17:00"}]}`, "InvalidTemplate", "spec.windows[0].from"},
		"unknown kind":      {"Lottery", `{}`, "UnknownCheckKind", "no CheckKind registers Lottery.approval.alaudadevops.io"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			namespace := cluster.Namespace(t)
			rule := ruleFor(namespace, tt.kind, tt.spec)
			create(t, cluster.Admin(), makeConnector(namespace), rule)
			until(t, rule, ruleIs(tt.reason))
			assert.Contains(t, ruleMessage(rule), tt.message)
			assert.Equal(t, rule.Generation, rule.Status.ObservedGeneration)
		})
	}
}

func TestRuleThatComesBeforeItsObject(t *testing.T) {
	namespace := cluster.Namespace(t)
	rule := ruleFor(namespace, "ApprovalRequest", goodTemplate)
	create(t, cluster.Admin(), rule)
	until(t, rule, ruleIs(approvalv1alpha1.ReasonObjectMissing))
	create(t, cluster.Admin(), makeConnector(namespace))
	until(t, rule, ruleIs(approvalv1alpha1.ReasonReady))
}

func connectorIs(reason string) func(*connectorsv1alpha1.Connector) bool {
	return func(c *connectorsv1alpha1.Connector) bool { return reasonOf(c.Status.Conditions) == reason }
}

func TestConnectorHasAServiceAndAnAddress(t *testing.T) {
	namespace := cluster.Namespace(t)
	connector := makeConnector(namespace)
	create(t, cluster.Admin(), connector)
	until(t, connector, connectorIs(approvalv1alpha1.ReasonReady))
	assert.Equal(t, "https://proxy.example.com/namespaces/"+namespace+"/connectors/harbor", connector.Status.Proxy.HTTPAddress.URL)
	service := until(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c-harbor"}}, func(*corev1.Service) bool { return true })
	assert.Equal(t, "countersign-proxy.countersign-system.svc.cluster.local", service.Spec.ExternalName)

	require.NoError(t, as(t, cluster.Admin()).Delete(t.Context(), service))
	until(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c-harbor"}}, func(s *corev1.Service) bool { return s.UID != service.UID })
}

func TestConnectorToThisVeryCluster(t *testing.T) {
	namespace := cluster.Namespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tool"}}
	create(t, cluster.Admin(), account)
	token, err := cluster.Token(t.Context(), namespace, "tool", "", nil)
	require.NoError(t, err)
	connector := makeConnector(namespace)
	connector.Spec.ConnectorClassName, connector.Spec.Address = "k8s", cluster.Admin().Host
	connector.Spec.Auth = &connectorsv1alpha1.ConnectorAuth{SecretRef: &connectorsv1alpha1.SecretReference{Name: "login"}}
	connector.Spec.CACertSecretRef = &connectorsv1alpha1.SecretReference{Name: "ca"}
	create(t, cluster.Admin(), connector)
	until(t, connector, connectorIs(approvalv1alpha1.ReasonSecretMissing))

	create(t, cluster.Admin(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ca"}, Data: map[string][]byte{"ca.crt": cluster.Admin().CAData}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "login"}, Type: connectorsv1alpha1.SecretTypeBearerToken, StringData: map[string]string{"token": token}})
	touch(t, connector, "secrets")
	until(t, connector, connectorIs(approvalv1alpha1.ReasonReady))
	assert.Equal(t, "system:serviceaccount:"+namespace+":tool", connector.Status.Identity)

	create(t, cluster.Admin(),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reach"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reach"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reach"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "tool"}}})
	touch(t, connector, "rights")
	until(t, connector, connectorIs(approvalv1alpha1.ReasonCredentialReachesGuards))
	message := apimeta.FindStatusCondition(connector.Status.Conditions, approvalv1alpha1.ConditionReady).Message
	assert.Contains(t, message, "may reach secrets in namespace "+namespace)
	assert.NotContains(t, message, token)
}
