package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// asking is a template that asks one owner, with a description that tells the versions of a rule apart.
func asking(description string) runtime.RawExtension {
	return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"description":%q,"policies":[{"name":"owners","approvers":[{"type":"Group","name":"prod-owners"}],"numberOfApprovalsRequired":1}]}`, description)}
}

// refusalsAfter makes a change and returns the reasons of all calls from then until one is refused with the last one.
// Once a call is refused, none may come through.
func (s *stage) refusalsAfter(token, last string, change func()) []string {
	s.Helper()
	change()
	var reasons []string
	s.eventually("the caller is refused with "+last, func() error {
		for range 200 {
			got := s.use(token, http.MethodPut, "/app")
			if got.status == http.StatusOK {
				require.Empty(s, reasons, "a caller came through although the change had closed the gate")
				continue
			}
			if reasons = append(reasons, got.reason); got.reason == last {
				return nil
			}
		}
		return fmt.Errorf("the reasons were %v", reasons)
	})
	return reasons
}

func TestAnEditedRuleClosesTheGateAndAsksAnew(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	developer := plane.token(t, "developer")
	request := s.mustAsk(plane.as(t, "developer"))
	s.approve(request, "owners", 1)
	s.allowed(developer, "PUT", "/app")

	// How long the gate says RulesChanged before the new question stands is the controller's affair, so more than one
	// edit is watched.
	seen := map[string]bool{}
	for edit := 1; edit <= 3; edit++ {
		for _, reason := range s.refusalsAfter(developer, approvalv1alpha1.ReasonChecksPending, func() {
			s.editRule("owners", func(spec *approvalv1alpha1.ResourceCheckRuleSpec) {
				spec.CheckTemplate.Spec = asking(fmt.Sprintf("edit %d", edit))
			})
		}) {
			seen[reason] = true
		}
		fresh := s.fetch(request)
		require.Len(t, fresh.Status.Superseded, edit)
		assert.Equal(t, approvalv1alpha1.ReasonRulesChanged, fresh.Status.Superseded[edit-1].Reason)
		s.approve(request, "owners", 1)
		s.allowed(developer, "PUT", "/app")
	}
	assert.Equal(t, map[string]bool{approvalv1alpha1.ReasonRulesChanged: true, approvalv1alpha1.ReasonChecksPending: true}, seen)
	assert.Len(t, s.requests(), 1, "nobody had to ask again")
}

func TestARevertedRuleDoesNotReviveItsOldApproval(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", string(asking("first").Raw))
	developer := plane.token(t, "developer")
	request := s.mustAsk(plane.as(t, "developer"))
	s.approve(request, "owners", 1)
	s.allowed(developer, "PUT", "/app")

	for _, description := range []string{"second", "first"} {
		s.editRule("owners", func(spec *approvalv1alpha1.ResourceCheckRuleSpec) { spec.CheckTemplate.Spec = asking(description) })
	}
	s.asks(request, "owners")
	s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonChecksPending)
	s.approve(request, "owners", 1)
	s.allowed(developer, "PUT", "/app")
}

func TestAnAddedRuleIsAskedAndTheOthersKeepTheirAnswers(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	developer := plane.token(t, "developer")
	request := s.mustAsk(plane.as(t, "developer"))
	s.approve(request, "owners", 1)
	s.allowed(developer, "PUT", "/app")
	kept := s.asks(request, "owners")

	s.rule("second", "ApprovalRequest", people(1))
	s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonChecksPending, "second")
	assert.Equal(t, kept, s.asks(request, "owners"), "who answered is not asked again")
	s.approve(request, "second", 1)
	s.allowed(developer, "PUT", "/app")

	t.Run("a deleted rule asks no longer", func(t *testing.T) {
		s.rule("third", "ApprovalRequest", people(1))
		s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonChecksPending, "third")
		require.NoError(t, s.admin.Delete(s.ctx, s.fetchRule("third")))
		s.allowed(developer, "PUT", "/app")
	})
	t.Run("a rule of the same name is another one", func(t *testing.T) {
		require.NoError(t, s.admin.Delete(s.ctx, s.fetchRule("second")))
		s.rule("second", "ApprovalRequest", people(1))
		s.asks(request, "second")
		s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonChecksPending, "second")
	})
	t.Run("without any rule the connector stays closed", func(t *testing.T) {
		for _, name := range []string{"owners", "second"} {
			require.NoError(t, s.admin.Delete(s.ctx, s.fetchRule(name)))
		}
		s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonNoRules)
	})
}

func TestAChangedConnectorAsksEveryRuleAnew(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	developer := plane.token(t, "developer")
	request := s.mustAsk(plane.as(t, "developer"))
	s.approve(request, "owners", 1)
	s.allowed(developer, "PUT", "/app")
	first := s.asks(request, "owners")

	s.refusalsAfter(developer, approvalv1alpha1.ReasonChecksPending, func() {
		connector := s.fetchConnector(connectorName)
		connector.Spec.Address += "/elsewhere"
		require.NoError(t, s.admin.Update(s.ctx, connector))
	})
	assert.NotEqual(t, first, s.asks(request, "owners"))
	s.approve(request, "owners", 1)
	s.allowed(developer, "PUT", "/app")
}
