package e2e

import (
	"errors"
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

// refusalsAfter makes a change and returns the reasons of all refusals from then until the new question stands. Whoever
// was refused once must not come through.
func (s *stage) refusalsAfter(token string, change func(), stands func() bool) map[string]bool {
	s.Helper()
	change()
	reasons := map[string]bool{}
	s.eventually("the new question stands", func() error {
		got := s.use(token, http.MethodPut, "/app")
		if got.status == http.StatusOK {
			require.Empty(s, reasons, "a caller came through although the change had closed the gate")
			return errors.New("the gate is open")
		}
		reasons[got.reason] = true
		if !stands() {
			return errors.New("the old one still stands")
		}
		return nil
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

	for edit := 1; edit <= 2; edit++ {
		reasons := s.refusalsAfter(developer, func() {
			s.editRule("owners", func(spec *approvalv1alpha1.ResourceCheckRuleSpec) {
				spec.CheckTemplate.Spec = asking(fmt.Sprintf("edit %d", edit))
			})
		}, func() bool { return len(s.fetch(request).Status.Superseded) == edit })
		assert.Equal(t, map[string]bool{approvalv1alpha1.ReasonRulesChanged: true}, reasons)
		fresh := s.fetch(request)
		assert.Equal(t, approvalv1alpha1.ReasonRulesChanged, fresh.Status.Superseded[edit-1].Reason)
		s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonRulesChanged, "prod-owners")
		s.approve(request, "owners", 1)
		s.allowed(developer, "PUT", "/app")
	}
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
	s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonRulesChanged)
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
	s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonRulesChanged, "second")
	assert.Equal(t, kept, s.asks(request, "owners"), "who answered is not asked again")
	s.approve(request, "second", 1)
	s.allowed(developer, "PUT", "/app")

	t.Run("a deleted rule asks no longer", func(t *testing.T) {
		s.rule("third", "ApprovalRequest", people(1))
		s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonRulesChanged, "third")
		require.NoError(t, s.admin.Delete(s.ctx, s.fetchRule("third")))
		s.allowed(developer, "PUT", "/app")
	})
	t.Run("a rule of the same name is another one", func(t *testing.T) {
		require.NoError(t, s.admin.Delete(s.ctx, s.fetchRule("second")))
		s.rule("second", "ApprovalRequest", people(1))
		s.asks(request, "second")
		s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonRulesChanged, "second")
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

	reasons := s.refusalsAfter(developer, func() {
		connector := s.fetchConnector(connectorName)
		connector.Spec.Address += "/elsewhere"
		require.NoError(t, s.admin.Update(s.ctx, connector))
	}, func() bool { return len(s.fetch(request).Status.Superseded) == 1 })
	assert.Equal(t, map[string]bool{approvalv1alpha1.ReasonObjectChanged: true}, reasons)
	assert.NotEqual(t, first, s.asks(request, "owners"))
	s.approve(request, "owners", 1)
	s.allowed(developer, "PUT", "/app")
}
