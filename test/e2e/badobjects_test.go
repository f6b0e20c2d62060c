package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// apply applies a manifest with kubectl, as people do; PROD and TEAM stand for the stage's namespaces.
func (s *stage) apply(t testing.TB, manifest string) ran {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	text := strings.NewReplacer("PROD", s.prod, "TEAM", s.team).Replace(manifest)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return program(t, nil, "kubectl", "create", "-f", path, "--context", "admin")
}

const (
	ruleHead      = "apiVersion: approval.alaudadevops.io/v1alpha1\nkind: ResourceCheckRule\nmetadata: {name: bad, namespace: PROD}\n"
	objectRef     = "objectRef: {apiVersion: connectors.alaudadevops.io/v1alpha1, kind: Connector, name: bad}"
	goodTemplate  = "checkTemplate: {apiVersion: approval.alaudadevops.io/v1alpha1, kind: ApprovalRequest, spec: {policies: [{name: p, approvers: [{type: User, name: u}], numberOfApprovalsRequired: 1}]}}"
	connectorHead = "apiVersion: connectors.alaudadevops.io/v1alpha1\nkind: Connector\nmetadata: {name: bad, namespace: PROD}\n"
	requestHead   = "apiVersion: approval.alaudadevops.io/v1alpha1\nkind: ResourceCheckRequest\nmetadata: {generateName: rcr-, namespace: TEAM}\n"
	askTool       = "objectRef: {apiVersion: connectors.alaudadevops.io/v1alpha1, kind: Connector, name: tool, namespace: PROD}"
	kindHead      = "apiVersion: approval.alaudadevops.io/v1alpha1\nkind: CheckKind\nmetadata: {name: gizmo.example.com}\n"
)

// refusedManifests are refused at once: by the client, the schema, or admission.
func refusedManifests() map[string]struct{ manifest, says string } {
	return map[string]struct{ manifest, says string }{
		"malformed YAML":            {ruleHead + "spec: {objectRef: [", "error converting YAML to JSON"},
		"an unknown field":          {ruleHead + "spec: {" + objectRef + ", " + goodTemplate + ", unheardOf: 1}", `unknown field "spec.unheardOf"`},
		"no spec":                   {ruleHead, "spec.checkTemplate: Required value"},
		"no kind in the template":   {ruleHead + "spec: {" + objectRef + ", checkTemplate: {apiVersion: v1}}", "spec.checkTemplate.kind: Required value"},
		"an unknown operation":      {ruleHead + "spec: {" + objectRef + ", when: {operations: [Destroy]}, " + goodTemplate + "}", `Unsupported value: "Destroy"`},
		"a path without a slash":    {ruleHead + "spec: {" + objectRef + ", when: {http: {paths: [v2]}}, " + goodTemplate + "}", "spec.when.http.paths[0]"},
		"a pattern nobody can read": {ruleHead + "spec: {" + objectRef + ", when: {http: {paths: ['/a/**/b']}}, " + goodTemplate + "}", "spec.when.http"},
		"an endless path":           {ruleHead + "spec: {" + objectRef + ", when: {http: {paths: [/" + strings.Repeat("a", 5000) + "]}}, " + goodTemplate + "}", "Too long"},
		"a duration of days":        {ruleHead + "spec: {" + objectRef + ", grant: {maxDuration: 1d}, " + goodTemplate + "}", `unknown unit "d" in duration "1d"`},
		"another namespace's rule":  {ruleHead + "spec: {objectRef: {apiVersion: v1, kind: ConfigMap, name: x, namespace: kube-system}, " + goodTemplate + "}", "write the rule where the object is"},

		"no address":               {connectorHead + "spec: {connectorClassName: any}", "spec.address: Required value"},
		"an address of no web":     {connectorHead + "spec: {connectorClassName: any, address: 'file:///etc/passwd'}", "spec.address"},
		"a foreign Secret":         {connectorHead + "spec: {connectorClassName: any, address: 'http://127.0.0.1:1', auth: {secretRef: {name: x, namespace: kube-system}}}", "Secrets of its own namespace only"},
		"an unreadable operation":  {connectorHead + "spec: {connectorClassName: any, address: 'http://127.0.0.1:1', operations: [{class: Read, paths: ['/a/**/b']}]}", "spec.operations[0]"},
		"an absurdly long address": {connectorHead + "spec: {connectorClassName: any, address: 'http://" + strings.Repeat("a", 5000) + "'}", "spec.address"},

		"no reason":               {requestHead + "spec: {" + askTool + "}", "say in a few words what it is for"},
		"an endless reason":       {requestHead + "spec: {" + askTool + ", reason: " + strings.Repeat("a", 1025) + "}", "spec.reason: Too long"},
		"a time that has passed":  {requestHead + "spec: {" + askTool + ", reason: x, timeRange: {before: '2020-01-01T00:00:00Z'}}", "it has passed"},
		"a time off UTC":          {requestHead + "spec: {" + askTool + ", reason: x, timeRange: {before: '2090-01-01T00:00:00+25:00'}}", "time zone offset hour out of range"},
		"an unknown object":       {requestHead + "spec: {objectRef: {apiVersion: connectors.alaudadevops.io/v1alpha1, kind: Connector, name: none, namespace: PROD}, reason: x}", "none"},
		"an unknown kind":         {requestHead + "spec: {objectRef: {apiVersion: example.com/v1, kind: Gizmo, name: none, namespace: PROD}, reason: x}", "Gizmo"},
		"a run that is not there": {requestHead + "spec: {" + askTool + ", reason: x, context: {resource: {apiVersion: batch/v1, kind: Job, name: none}}}", "none"},
		"a reserved name":         {strings.Replace(requestHead, "generateName: rcr-", "name: rcr-mine", 1) + "spec: {" + askTool + ", reason: x}", "rcr-"},

		"a CheckKind of another name":    {kindHead + "spec: {apiVersion: example.com/v1, kind: Widget}", "the name must be <kind>.<group>"},
		"a field path nobody can follow": {kindHead + "spec: {apiVersion: example.com/v1, kind: Gizmo, requestField: 'spec..request'}", "requestField"},
	}
}

func TestWhatCannotBeUsedIsRefusedWithOneSentence(t *testing.T) {
	s := newStage(t)
	for what, test := range refusedManifests() {
		t.Run(what, func(t *testing.T) {
			s.apply(t, test.manifest).fails(t, test.says)
		})
	}
}

// condition waits until an object's Ready shows a reason and a message with these words.
func (s *stage) condition(what string, conditions func() []metav1.Condition, reason, says string) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s says %s: %s", what, reason, says), func() error {
		for _, c := range conditions() {
			if c.Type == approvalv1alpha1.ConditionReady && c.Status == metav1.ConditionFalse && c.Reason == reason && strings.Contains(c.Message, says) {
				return nil
			}
		}
		return fmt.Errorf("it says %+v", conditions())
	})
}

func TestRulesThatAskNobodyWarnAndDeny(t *testing.T) {
	for what, test := range map[string]struct{ apiVersion, kind, spec, reason, says string }{
		"an unknown kind": {"example.com/v1", "Gizmo", "{}", approvalv1alpha1.ReasonUnknownCheckKind, "no CheckKind registers Gizmo.example.com"},
		"a script nobody can read": {
			"approval.alaudadevops.io/v1alpha1", "ScriptCheck", `{"expression": "request.reason ("}`, approvalv1alpha1.ReasonInvalidTemplate, "spec.expression",
		},
		"a time zone that is none": {
			"approval.alaudadevops.io/v1alpha1", "TimeWindowCheck", `{"timeZone": "Mars/Olympus", "windows": [{"from": "00:00", "to": "24:00"}]}`, approvalv1alpha1.ReasonInvalidTemplate, "Mars/Olympus",
		},
		"nobody who could answer": {"approval.alaudadevops.io/v1alpha1", "ApprovalRequest", `{"policies": []}`, approvalv1alpha1.ReasonInvalidTemplate, "spec.policies"},
		"a field of no check":     {"approval.alaudadevops.io/v1alpha1", "ApprovalRequest", `{"polices": []}`, approvalv1alpha1.ReasonInvalidTemplate, "polic"},
		"everybody as approver": {
			"approval.alaudadevops.io/v1alpha1", "ApprovalRequest",
			`{"policies": [{"name": "p", "approvers": [{"type": "Group", "name": "system:authenticated"}], "numberOfApprovalsRequired": 1}]}`, approvalv1alpha1.ReasonInvalidTemplate, "system:",
		},
		"nobody needed": {
			"approval.alaudadevops.io/v1alpha1", "ApprovalRequest",
			`{"policies": [{"name": "p", "approvers": [{"type": "User", "name": "u"}], "numberOfApprovalsRequired": 0}]}`, approvalv1alpha1.ReasonInvalidTemplate, "numberOfApprovalsRequired",
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newStage(t)
			manifest := fmt.Sprintf("%sspec: {objectRef: {apiVersion: connectors.alaudadevops.io/v1alpha1, kind: Connector, name: tool}, checkTemplate: {apiVersion: %s, kind: %s, spec: %s}}",
				ruleHead, test.apiVersion, test.kind, test.spec)
			s.apply(t, manifest).succeeds(t, "Warning: "+test.reason)
			s.condition("the rule", func() []metav1.Condition { return s.fetchRule("bad").Status.Conditions }, test.reason, test.says)
			s.refused(plane.token(t, "developer"), "PUT", "/app", approvalv1alpha1.ReasonRuleNotReady, "bad")
			s.mustAsk(plane.as(t, "developer"))
			s.refused(plane.token(t, "developer"), "PUT", "/app", approvalv1alpha1.ReasonRuleNotReady, "bad")
		})
	}
}

func TestConnectorsThatCannotWorkSayWhatToDo(t *testing.T) {
	s := newStage(t)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.prod, Name: "garbage"}, Data: map[string][]byte{"ca.crt": []byte("no certificate")}})
	for name, test := range map[string]struct {
		change       func(*connectorsv1alpha1.ConnectorSpec)
		reason, says string
	}{
		"no-secret": {func(c *connectorsv1alpha1.ConnectorSpec) {
			c.Auth = &connectorsv1alpha1.ConnectorAuth{SecretRef: &connectorsv1alpha1.SecretReference{Name: "none"}}
		}, approvalv1alpha1.ReasonSecretMissing, "the Secret none does not exist"},
		"strange-secret": {func(c *connectorsv1alpha1.ConnectorSpec) {
			c.Auth = &connectorsv1alpha1.ConnectorAuth{SecretRef: &connectorsv1alpha1.SecretReference{Name: "garbage"}}
		}, approvalv1alpha1.ReasonSecretInvalid, "garbage"},
		"no-ca": {func(c *connectorsv1alpha1.ConnectorSpec) {
			c.CACertSecretRef = &connectorsv1alpha1.SecretReference{Name: "garbage"}
		}, approvalv1alpha1.ReasonSecretInvalid, "no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			connector := s.connector(name)
			test.change(&connector.Spec)
			s.create(connector)
			s.condition("the connector", func() []metav1.Condition { return s.fetchConnector(name).Status.Conditions }, test.reason, test.says)
			got := s.useOf(name, plane.token(t, "developer"), "GET", "/app")
			require.GreaterOrEqualf(t, got.status, 400, "%+v", got)
			require.Zero(t, s.reached.Load())
		})
	}
}

func TestAKindWhoseStateNobodyCanReadSaysSo(t *testing.T) {
	s := newStage(t)
	kind := &approvalv1alpha1.CheckKind{
		ObjectMeta: metav1.ObjectMeta{Name: "widget.example.com"},
		Spec: approvalv1alpha1.CheckKindSpec{
			APIVersion: "example.com/v1", Kind: "Widget", State: &approvalv1alpha1.StateReader{CEL: "self.status.("},
		},
	}
	s.create(kind)
	t.Cleanup(func() { _ = s.admin.Delete(context.Background(), kind) })
	s.condition("the CheckKind", func() []metav1.Condition {
		fresh := &approvalv1alpha1.CheckKind{}
		require.NoError(t, s.admin.Get(s.ctx, client.ObjectKeyFromObject(kind), fresh))
		return fresh.Status.Conditions
	}, approvalv1alpha1.ReasonInvalidExpression, "spec.state.cel")
}

// One object that nobody can work with must not keep others from working: neither its neighbours nor who comes after.
func TestOnePoisonousObjectAffectsNoOther(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	developer := plane.token(t, "developer")
	healthy := s.mustAsk(plane.as(t, "developer"))
	s.approve(healthy, "owners", 1)
	s.allowed(developer, "PUT", "/app")

	// A script that fails while it runs, on a connector of its own.
	s.create(s.connector("poison"))
	s.rule("poison", "ScriptCheck", `{"expression":"request.nothing.at.all == 'x'"}`, func(r *approvalv1alpha1.ResourceCheckRule) {
		r.Spec.ObjectRef.Name = "poison"
	})
	poisoned := s.mustAsk(plane.as(t, "developer"), func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.ObjectRef.Name, r.Spec.Reason = "poison", "\x1b[2J\u202e$(object.name){{.}}"
	})
	s.reaches(poisoned, approvalv1alpha1.ReasonError)
	broken := s.newRule("broken", "ApprovalRequest", "{}", func(r *approvalv1alpha1.ResourceCheckRule) { r.Spec.ObjectRef.Name = "poison" })
	broken.Spec.CheckTemplate.Spec = runtime.RawExtension{Raw: []byte(`{"policies":"none"}`)}
	s.create(broken)

	s.allowed(developer, "PUT", "/app")
	s.refused(plane.token(t, "intruder"), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
	after := s.mustAsk(plane.as(t, "intruder"))
	s.approve(after, "owners", 1)
	s.allowed(plane.token(t, "intruder"), "PUT", "/app")
	got := s.useOf("poison", developer, "PUT", "/app")
	require.Equalf(t, 403, got.status, "%+v", got)
}
