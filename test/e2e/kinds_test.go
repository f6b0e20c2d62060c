package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// closedNow is a window that opens in three days, so that it is closed during the test.
func closedNow() string {
	return fmt.Sprintf(`{"windows":[{"weekdays":[%q],"from":"00:00","to":"24:00"}]}`, time.Now().UTC().AddDate(0, 0, 3).Weekday())
}

const alwaysOpen = `{"windows":[{"from":"00:00","to":"24:00"}]}`

func whenHTTP(methods []string, paths ...string) *approvalv1alpha1.OperationSelector {
	return &approvalv1alpha1.OperationSelector{HTTP: &approvalv1alpha1.HTTPSelector{Methods: methods, Paths: paths}}
}

func forUse(use *approvalv1alpha1.OperationSelector) func(*approvalv1alpha1.ResourceCheckRequest) {
	return func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.Use = use }
}

func forReason(reason string) func(*approvalv1alpha1.ResourceCheckRequest) {
	return func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.Reason = reason }
}

func TestPeopleAndATimeWindowMustBothAgree(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	s.rule("hours", "TimeWindowCheck", closedNow())
	developer := plane.token(t, "developer")
	request := s.mustAsk(plane.as(t, "developer"))
	s.approve(request, "owners", 1)
	s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonChecksPending, "hours")

	s.editRule("hours", func(spec *approvalv1alpha1.ResourceCheckRuleSpec) {
		spec.CheckTemplate.Spec = runtime.RawExtension{Raw: []byte(alwaysOpen)}
	})
	s.reaches(request, approvalv1alpha1.ReasonAllChecksApproved)
	s.allowed(developer, "PUT", "/app")
}

func TestPeopleAndAScriptMustBothAgree(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	s.rule("change", "ScriptCheck", `{"expression":"request.reason.startsWith('CHG-')","message":"name the change in the reason, as CHG-NUMBER"}`)
	developer := plane.as(t, "developer")

	without := s.mustAsk(developer)
	s.reaches(without, approvalv1alpha1.ReasonChecksRejected)
	s.refused(plane.token(t, "developer"), "PUT", "/app", approvalv1alpha1.ReasonChecksRejected, "name the change in the reason")

	with := s.mustAsk(developer, forReason("CHG-17: promote 1.4.2"))
	s.refused(plane.token(t, "developer"), "PUT", "/app", approvalv1alpha1.ReasonChecksPending, "prod-owners")
	s.approve(with, "owners", 1)
	s.allowed(plane.token(t, "developer"), "PUT", "/app")
}

func TestAUseThatMeetsOneRuleAsksOnlyThatOne(t *testing.T) {
	s := newStage(t)
	s.rule("push", "ApprovalRequest", people(1), func(r *approvalv1alpha1.ResourceCheckRule) {
		r.Spec.When = whenHTTP([]string{"PUT"}, "/images/**")
	})
	s.rule("remove", "TimeWindowCheck", closedNow(), func(r *approvalv1alpha1.ResourceCheckRule) {
		r.Spec.When = whenHTTP([]string{"DELETE"})
	})
	developer := plane.token(t, "developer")
	request := s.mustAsk(plane.as(t, "developer"), forUse(whenHTTP([]string{"PUT"}, "/images/app/*")))
	s.approve(request, "push", 1)
	s.allowed(developer, "PUT", "/images/app/1")
	rules := s.fetch(request).Status.Rules
	require.Len(t, rules, 1)
	assert.Equal(t, "push", rules[0].Name)

	s.refused(developer, "PUT", "/images/other/1", approvalv1alpha1.ReasonOutsideRequest)
	s.refused(developer, "DELETE", "/images/app/1", approvalv1alpha1.ReasonOutsideRequest)
	s.refused(developer, "PUT", "/elsewhere", approvalv1alpha1.ReasonNoRules)
}

// A kind that nothing of Countersign knows: its CRD is installed while everything runs.
var ticketKind = schema.GroupVersionKind{Group: "tickets.example.com", Version: "v1", Kind: "Ticket"}

// installTickets installs the kind, registers it, and lets the controller make its objects and the desk answer them.
func (s *stage) installTickets(desk string) {
	s.Helper()
	s.create(&approvalv1alpha1.CheckKind{
		ObjectMeta: metav1.ObjectMeta{Name: "ticket." + ticketKind.Group},
		Spec: approvalv1alpha1.CheckKindSpec{
			APIVersion: ticketKind.GroupVersion().String(), Kind: ticketKind.Kind,
			State: &approvalv1alpha1.StateReader{CEL: "!has(self.status) || !has(self.status.phase) ? 'pending'" +
				" : self.status.phase == 'Done' ? 'approved' : self.status.phase == 'Declined' ? 'rejected' : 'pending'"},
			Expand: []string{".spec.title"}, Answers: []string{".spec.seenBy"}, Writers: []string{desk},
		},
	})
	s.checkKindIs(approvalv1alpha1.ReasonNotInstalled)
	s.applyCRD(filepath.Join("testdata", "tickets.yaml"))
	s.create(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "tickets-as-checks", Labels: map[string]string{"approval.alaudadevops.io/aggregate-to-checks": "true"}},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{ticketKind.Group}, Resources: []string{"tickets"}, Verbs: []string{"create", "delete", "get", "list", "watch"},
		}},
	})
	s.create(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "tickets-desk"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{ticketKind.Group}, Resources: []string{"tickets", "tickets/status"}, Verbs: []string{"get", "list", "update", "patch"},
		}},
	})
	s.checkKindIs(approvalv1alpha1.ReasonReady)
}

func (s *stage) checkKindIs(reason string) {
	s.Helper()
	s.eventually("the CheckKind says "+reason, func() error {
		kind := &approvalv1alpha1.CheckKind{}
		if err := s.admin.Get(s.ctx, client.ObjectKey{Name: "ticket." + ticketKind.Group}, kind); err != nil {
			return err
		}
		for _, c := range kind.Status.Conditions {
			if c.Type == approvalv1alpha1.ConditionReady && c.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("it says %+v", kind.Status.Conditions)
	})
}

// ticket is the check of a request for a rule.
func (s *stage) ticket(request *approvalv1alpha1.ResourceCheckRequest, rule string) *unstructured.Unstructured {
	s.Helper()
	ref := s.asks(request, rule)
	ticket := &unstructured.Unstructured{}
	ticket.SetGroupVersionKind(ticketKind)
	require.NoError(s, s.admin.Get(s.ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.ObjectName}, ticket))
	return ticket
}

// phase sets the phase of a ticket as somebody.
func (s *stage) phase(as client.Client, ticket *unstructured.Unstructured, phase string) error {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"status":{"phase":%q}}`, phase))
	return as.Status().Patch(s.ctx, ticket.DeepCopy(), patch)
}

func TestAKindOfSomebodyElseGatesAConnector(t *testing.T) {
	s := newStage(t)
	s.installTickets("desk@example.com")
	s.bind(s.prod, "tickets-desk", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "desk@example.com"}, group("developers"))
	s.rule("ticket", ticketKind.Kind, `{"title":"$(subject.name) wants $(object.name)"}`, func(r *approvalv1alpha1.ResourceCheckRule) {
		r.Spec.CheckTemplate.APIVersion = ticketKind.GroupVersion().String()
	})
	developer := plane.token(t, "developer")
	request := s.mustAsk(plane.as(t, "developer"))
	s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonChecksPending)

	ticket := s.ticket(request, "ticket")
	title, _, _ := unstructured.NestedString(ticket.Object, "spec", "title")
	assert.Equal(t, "developer@example.com wants "+connectorName, title)
	assert.Equal(t, string(request.UID), ticket.GetLabels()[approvalv1alpha1.LabelRequestUID])
	assert.Contains(t, ticket.GetAnnotations()[approvalv1alpha1.AnnotationContext], "the test asks")

	refusedBy(t, s.phase(plane.as(t, "developer"), ticket, "Done"), "spec.writers of the CheckKind")
	desk := plane.impersonating(t, "desk@example.com")
	require.NoError(t, s.phase(desk, ticket, "Open"))
	s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonChecksPending)
	require.NoError(t, s.phase(desk, ticket, "Done"))
	s.allowed(developer, "PUT", "/app")

	t.Run("a state that is taken back closes the gate", func(t *testing.T) {
		require.NoError(t, s.phase(desk, ticket, "Declined"))
		s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonChecksRejected)
	})
	t.Run("an altered question does not count", func(t *testing.T) {
		again := s.mustAsk(plane.as(t, "developer"))
		altered := s.ticket(again, "ticket")
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"title":"nothing to see"}}`))
		require.NoError(t, plane.as(t, "developer").Patch(s.ctx, altered.DeepCopy(), patch))
		require.NoError(t, s.phase(desk, altered, "Done"))
		s.reaches(again, approvalv1alpha1.ReasonError)
		s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonError)
	})
}
