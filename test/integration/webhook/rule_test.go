package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// registerKinds takes the shipped check kinds up, as ready.
func registerKinds(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile("../../../config/controller/checkkinds.yaml")
	require.NoError(t, err)
	for _, document := range strings.Split(string(data), "\n---\n") {
		kind := &approvalv1alpha1.CheckKind{}
		require.NoError(t, yaml.Unmarshal([]byte(document), kind))
		kind.Status.Conditions = []metav1.Condition{{Type: approvalv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		registry.Set(kind)
	}
}

// rule asks one owner for every write to the connector.
func (w *world) rule(name string) *approvalv1alpha1.ResourceCheckRule {
	return w.ruleFor(name, "ApprovalRequest", map[string]any{"policies": []any{map[string]any{
		"name": "owners", "numberOfApprovalsRequired": 1, "approvers": []any{map[string]any{"type": "Group", "name": "owners"}}}}})
}

func (w *world) ruleFor(name, kind string, spec map[string]any) *approvalv1alpha1.ResourceCheckRule {
	raw, err := json.Marshal(spec)
	require.NoError(w.t, err)
	return &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef:     approvalv1alpha1.ObjectReference{APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Name: "harbor"},
			CheckTemplate: approvalv1alpha1.CheckTemplate{APIVersion: "approval.alaudadevops.io/v1alpha1", Kind: kind, Spec: runtime.RawExtension{Raw: raw}},
		},
	}
}

// owner may write rules that use ApprovalRequests.
func (w *world) owner(name string) (client.Client, *warnings) {
	w.t.Helper()
	w.person(name)
	w.allow(name, rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.GroupVersion.Group}, Resources: []string{"checkkinds"}, Verbs: []string{"use"},
		ResourceNames: []string{"approvalrequest.approval.alaudadevops.io"}})
	return w.warned(name)
}

func TestRulesAreCompletedAndNeedTheVerbUse(t *testing.T) {
	registerKinds(t)
	w := newWorld(t)
	olga, warned := w.owner("olga")
	rule := w.rule("push")
	w.create(olga, rule)
	assert.Empty(t, warned.take())
	assert.Equal(t, w.namespace, rule.Spec.ObjectRef.Namespace)
	assert.Equal(t, "harbor", rule.Labels[approvalv1alpha1.LabelObjectName])
	assert.Equal(t, "Connector", rule.Labels[approvalv1alpha1.LabelObjectKind])

	eve := w.person("eve")
	refused(t, eve.Create(t.Context(), w.rule("eve")), `you lack the verb "use"`)
	labelled := reread(w, rule)
	labelled.Labels["team"] = "a"
	require.NoError(t, eve.Update(t.Context(), labelled), "labels alone need no right to use the kind")
	edited := reread(w, rule)
	edited.Spec.When = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{"Read"}}
	refused(t, eve.Update(t.Context(), edited), `you lack the verb "use"`)

	script := w.ruleFor("script", "ScriptCheck", map[string]any{"expression": "true"})
	refused(t, olga.Create(t.Context(), script), "scriptcheck.approval.alaudadevops.io")
	elsewhere := w.rule("elsewhere")
	elsewhere.Spec.ObjectRef.Namespace = "default"
	refused(t, olga.Create(t.Context(), elsewhere), "spec.objectRef.namespace")
}

func TestRulesWarnAtOnce(t *testing.T) {
	registerKinds(t)
	w := newWorld(t)
	olga, warned := w.owner("olga")
	w.allow("olga", rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.GroupVersion.Group}, Resources: []string{"checkkinds"}, Verbs: []string{"use"}})

	w.create(olga, w.ruleFor("no-policies", "ApprovalRequest", map[string]any{"policies": []any{}}))
	assert.Contains(t, warned.take(), "InvalidTemplate: until that is repaired, the rule denies:")
	w.create(olga, w.ruleFor("script", "ScriptCheck", map[string]any{"expression": "1 +"}))
	assert.Contains(t, warned.take(), "spec.expression")
	w.create(olga, w.ruleFor("window", "TimeWindowCheck", map[string]any{"timeZone": "Mars/Olympus", "windows": []any{map[string]any{"from": "09:00", "to": "17:00"}}}))
	assert.Contains(t, warned.take(), "Mars/Olympus")
	w.create(olga, w.ruleFor("unknown", "JiraCheck", map[string]any{}))
	assert.Contains(t, warned.take(), "UnknownCheckKind")

	byMethod := w.rule("by-method")
	byMethod.Spec.When = &approvalv1alpha1.OperationSelector{HTTP: &approvalv1alpha1.HTTPSelector{Methods: []string{"POST", "PUT"}}}
	w.create(olga, byMethod)
	assert.Contains(t, warned.take(), "DELETE")

	request := w.request()
	w.create(w.person("alice"), request)
	eventually(t, func(ctx context.Context) error {
		later := w.rule("")
		later.GenerateName = "later-"
		if err := olga.Create(ctx, later); err != nil {
			return err
		}
		if text := warned.take(); !strings.Contains(text, "closes 0 live grants and asks 1 question anew") {
			return fmt.Errorf("not warned yet: %s", text)
		}
		return nil
	})
}

func TestConnectorsLendOnlyWhatTheWriterMayRead(t *testing.T) {
	w := newWorld(t)
	w.allow("dev", rbacv1.PolicyRule{APIGroups: []string{connectorsv1alpha1.GroupVersion.Group}, Resources: []string{"connectors"}, Verbs: []string{"create", "get", "update", "delete"}})
	dev := as(t, cluster.Config(w.name("dev")))
	mine := &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "mine"},
		Spec: connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "any", Address: "https://evil.example.com",
			Auth: &connectorsv1alpha1.ConnectorAuth{SecretRef: &connectorsv1alpha1.SecretReference{Name: "login"}}},
	}
	refused(t, dev.Create(t.Context(), mine.DeepCopy()), "you may not get the Secret")
	plain := mine.DeepCopy()
	plain.Spec.Auth = nil
	w.create(dev, plain)

	harbor := reread(w, &connectorsv1alpha1.Connector{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "harbor"}})
	harbor.Spec.RequireChecks = true
	refused(t, dev.Update(t.Context(), harbor), "resourcecheckrules")
	registerKinds(t)
	olga, _ := w.owner("olga")
	w.create(olga, w.rule("push"))
	refused(t, dev.Delete(t.Context(), harbor), "is protected")
}
