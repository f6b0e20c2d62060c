package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// Exit codes, as the help of the command line promises them.
const (
	exitUsage    = 2
	exitDenied   = 3
	exitPending  = 4
	exitNotFound = 5
)

const theConnector = "connector/" + connectorName

// cliAsk asks for the stage's connector as the developer and returns the request's name.
func (s *stage) cliAsk(args ...string) string {
	s.Helper()
	return nameIn(s.cliRequest(append(args, "-o", "name")...).succeeds(s).output)
}

func (s *stage) cliRequest(args ...string) ran {
	s.Helper()
	return cli(s, "developer", append([]string{"request", theConnector, "-n", s.prod, "--in", s.team, "--reason", "promote 1.4.2"}, args...)...)
}

func TestTheCommandLineTellsAWholeStory(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))

	name := s.cliAsk()
	s.cliRequest().succeeds(t, "already asked: "+name)
	assert.Len(t, s.requests(), 1)
	cli(t, "developer", "wait", name, "-n", s.team, "--timeout", "1s").ends(t, exitPending, "prod-owners")
	cli(t, "developer", "explain", theConnector, "-n", s.prod, "--method", "PUT", "--path", "/app").ends(t, exitPending, approvalv1alpha1.ReasonChecksPending)
	cli(t, "developer", "approve", name, "-n", s.prod).fails(t)
	cli(t, "owner1", "describe", name, "-n", s.prod).succeeds(t, "developer@example.com", "promote 1.4.2", connectorName)

	cliAnswer(t, "owner1", "approve", name, "-n", s.prod, "--comment", "the tests are green")
	cli(t, "developer", "wait", name, "-n", s.team, "--timeout", "30s").succeeds(t)
	s.allowed(plane.token(t, "developer"), "PUT", "/app")
	cli(t, "developer", "explain", theConnector, "-n", s.prod, "--method", "PUT", "--path", "/app").succeeds(t, "allowed")
	cli(t, "owner1", "approve", name, "-n", s.prod).fails(t)
	cli(t, "developer", "describe", name, "-n", s.team).succeeds(t, "owner1@example.com", "the tests are green", "promote 1.4.2")
	cli(t, "developer", "list", "-n", s.team).succeeds(t, name)
	cli(t, "intruder", "list", "-n", s.team).succeeds(t)
	assert.NotContains(t, cli(t, "intruder", "list", "-n", s.team).output, name, "it is not the intruder's")

	cli(t, "intruder", "revoke", name, "-n", s.team, "--comment", "mine").fails(t)
	cli(t, "developer", "revoke", name, "-n", s.team, "--comment", "done early").succeeds(t)
	cli(t, "developer", "wait", name, "-n", s.team, "--timeout", "30s").ends(t, exitDenied, approvalv1alpha1.ReasonRevoked)
	s.refused(plane.token(t, "developer"), "PUT", "/app", approvalv1alpha1.ReasonRevoked)
	cli(t, "developer", "explain", theConnector, "-n", s.prod, "--method", "PUT", "--path", "/app").ends(t, exitDenied, approvalv1alpha1.ReasonRevoked)
}

func TestTheCommandLineAsksAgain(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	first := s.cliAsk()
	s.asks(named(s.team, first), "owners")
	second := s.cliAsk("--again")
	assert.NotEqual(t, first, second)
	s.reaches(named(s.team, first), approvalv1alpha1.ReasonRevoked)

	cliAnswer(t, "owner2", "reject", second, "-n", s.prod, "--comment", "not before the backup is done")
	cli(t, "developer", "wait", second, "-n", s.team, "--timeout", "30s").ends(t, exitDenied, "not before the backup is done")
	third := s.cliAsk()
	assert.NotContains(t, []string{first, second}, third, "after a rejection a person asks at once")
}

func TestAnOwnerTakesAnApprovalBackAndHoldsTheQuestion(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	name := s.cliAsk("--for", "1h")
	cliAnswer(t, "owner1", "approve", name, "-n", s.prod)
	s.allowed(plane.token(t, "developer"), "PUT", "/app")
	cli(t, "owner2", "revoke", name, "-n", s.prod, "--comment", "the token leaked").succeeds(t)
	s.refused(plane.token(t, "developer"), "PUT", "/app", approvalv1alpha1.ReasonRevoked)
	s.reaches(named(s.team, name), approvalv1alpha1.ReasonRevoked)
	s.cliRequest().ends(t, exitDenied, "an owner took the approval", "the token leaked")
}

func TestTheCommandLineSaysWhatIsWrong(t *testing.T) {
	s := newStage(t)
	for what, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no object":            {[]string{"request"}, exitUsage, ""},
		"no such use":          {[]string{"request", theConnector, "-n", s.prod, "--use", "Destroy"}, exitUsage, "neither Read nor Write"},
		"a path without slash": {[]string{"request", theConnector, "-n", s.prod, "--paths", "v2"}, exitUsage, "must begin with /"},
		"no such verb":         {[]string{"aprove"}, exitUsage, ""},
		"no reason":            {[]string{"request", theConnector, "-n", s.prod, "--in", s.team}, exitDenied, "reason"},
		"no such connector":    {[]string{"request", "connector/none", "-n", s.prod, "--in", s.team, "--reason", "x"}, exitDenied, "none"},
		"no such kind":         {[]string{"request", "gizmo/none", "-n", s.prod, "--in", s.team, "--reason", "x"}, 1, "gizmo"},
		"no such request":      {[]string{"wait", "rcr-none", "-n", s.team}, exitNotFound, "rcr-none"},
		"nothing to describe":  {[]string{"describe", "rcr-none", "-n", s.team}, exitNotFound, "rcr-none"},
		"nothing to explain":   {[]string{"explain", "connector/none", "-n", s.prod}, exitNotFound, approvalv1alpha1.ReasonConnectorUnknown},
		"no right to answer":   {[]string{"approve", "rcr-none", "-n", s.prod}, exitDenied, "may not get approvalrequests"},
		"no right on others":   {[]string{"explain", theConnector, "-n", s.prod, "--for-user", "owner1@example.com"}, exitDenied, "explain"},
	} {
		t.Run(what, func(t *testing.T) { cli(t, "developer", test.args...).ends(t, test.code, test.says) })
	}
	cli(t, "owner1", "approve", "rcr-none", "-n", s.prod).ends(t, exitNotFound, "rcr-none")
}

func TestExplainTellsOwnersAboutOthers(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	args := func(group string) []string {
		return []string{"explain", theConnector, "-n", s.prod, "--method", "PUT", "--path", "/app", "--for-user", "developer@example.com", "--for-group", group}
	}
	cli(t, "owner1", args("developers")...).ends(t, exitDenied, approvalv1alpha1.ReasonNoRequest, "owners")
	cli(t, "owner1", args("strangers")...).ends(t, exitNotFound, approvalv1alpha1.ReasonConnectorUnknown)
	cli(t, "developer", "explain", theConnector, "-n", s.prod).succeeds(t, "allowed")
	assert.Zero(t, s.reached.Load(), "explaining touches no tool")

	s.approve(s.mustAsk(plane.as(t, "developer")), "owners", 1)
	s.allowed(plane.token(t, "developer"), "PUT", "/app")
	cli(t, "owner1", args("developers")...).succeeds(t, "allowed")
}

// inbox is what waits for a person's answer, as namespace/name of the requests.
func inbox(t testing.TB, person string) []string {
	t.Helper()
	var list struct {
		Items []struct {
			Request approvalv1alpha1.CheckRequest `json:"request"`
		} `json:"items"`
	}
	r := cli(t, person, "list", "--inbox", "-o", "json").succeeds(t)
	require.NoError(t, json.Unmarshal([]byte(r.output), &list), r.output)
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Request.Ref.Namespace+"/"+item.Request.Ref.Name)
	}
	return names
}

func (s *stage) inInbox(person string, request *approvalv1alpha1.ResourceCheckRequest, want bool) {
	s.Helper()
	s.eventually(fmt.Sprintf("the inbox of %s holds %s: %t", person, request.Name, want), func() error {
		names := inbox(s, person)
		for _, name := range names {
			if name == request.Namespace+"/"+request.Name {
				if want {
					return nil
				}
				return fmt.Errorf("it holds it")
			}
		}
		if want {
			return fmt.Errorf("it holds %v", names)
		}
		return nil
	})
}

func TestTheInboxListsWhatOneMayAnswerInAllNamespaces(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	second := s.namespace("second-")
	s.bind(second, "countersign-connector-user", group("developers"))
	connector := s.connector("other")
	connector.Namespace = second
	s.create(connector)
	// owner2 holds no right at all in the second namespace but the one to answer.
	s.bind(second, "countersign-approver", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "owner2@example.com"})
	rule := s.newRule("one", "ApprovalRequest", `{"policies":[{"name":"one","approvers":[{"type":"User","name":"owner2@example.com"}],"numberOfApprovalsRequired":1}]}`)
	rule.Namespace, rule.Spec.ObjectRef.Name = second, "other"
	s.create(rule)

	developer := plane.as(t, "developer")
	here := s.mustAsk(developer)
	there := s.mustAsk(developer, func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.ObjectRef.Namespace, r.Spec.ObjectRef.Name = second, "other"
	})
	s.inInbox("owner2", here, true)
	s.inInbox("owner2", there, true)
	s.inInbox("owner1", here, true)
	s.inInbox("owner1", there, false)
	s.inInbox("developer", here, false)

	require.NoError(t, s.answer("owner2", here, "owners", approvalv1alpha1.DecisionApprove))
	s.inInbox("owner2", here, false)
	s.inInbox("owner1", here, false)
	require.NoError(t, s.revoke(developer, there, "no longer needed"))
	s.inInbox("owner2", there, false)
}
