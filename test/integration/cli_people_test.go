package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/cli"
)

// person runs the command line as somebody.
type person struct {
	t          *testing.T
	kubeconfig string
	out, err   bytes.Buffer
}

func personAt(t *testing.T, email string, groups ...string) *person {
	t.Helper()
	config, err := cluster.Person(email, groups...)
	require.NoError(t, err)
	content, err := cluster.Kubeconfig("person", config)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return &person{t: t, kubeconfig: file}
}

func (p *person) run(args ...string) int {
	p.t.Helper()
	p.out.Reset()
	p.err.Reset()
	common := []string{"--kubeconfig", p.kubeconfig, "--cache-dir", filepath.Dir(p.kubeconfig)}
	return cli.Run(p.t.Context(), append(common, args...), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &p.out, ErrOut: &p.err})
}

// must runs a line that has to succeed.
func (p *person) must(args ...string) string {
	p.t.Helper()
	require.Equalf(p.t, cli.ExitDone, p.run(args...), "%v: %s", args, p.err.String())
	return p.out.String()
}

// cliStory is two namespaces, and people with the shipped roles in them.
type cliStory struct {
	t            *testing.T
	team, prod   string
	dev, owner   *person
	controller   client.Client
	devUser      string
	approverUser string
}

func newCLIStory(t *testing.T) *cliStory {
	t.Helper()
	t.Setenv("PROXY_URL", "")
	t.Setenv("PROXY_CA", "")
	s := &cliStory{
		t: t, team: cluster.Namespace(t), prod: cluster.Namespace(t), devUser: "cli-dev@example.com", approverUser: "cli-owner@example.com",
		controller: controllerClient(t),
	}
	s.dev, s.owner = personAt(t, s.devUser, "developers"), personAt(t, s.approverUser, "prod-owners")
	bindClusterRole(t, s.team, s.devUser, "countersign-requester")
	bindClusterRole(t, s.prod, s.devUser, "countersign-connector-user")
	bindClusterRole(t, s.prod, s.approverUser, "countersign-owner")
	require.NoError(t, as(t, cluster.Admin()).Create(t.Context(), &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.prod, Name: "harbor"},
		Spec:       connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "oci", Address: "https://tool.example.com"},
	}))
	return s
}

// check plays the controller, which asks the owners.
func (s *cliStory) check(req *approvalv1alpha1.ResourceCheckRequest) *approvalv1alpha1.ApprovalRequest {
	s.t.Helper()
	check := approvalRequest(s.prod, "check-"+req.Name)
	check.Labels = map[string]string{approvalv1alpha1.LabelRequestUID: string(req.UID)}
	check.Spec.Policies[0].NumberOfApprovalsRequired = 2
	check.Spec.Policies[0].Approvers = []approvalv1alpha1.Approver{{Type: approvalv1alpha1.ApproverGroup, Name: "prod-owners"}}
	check.Spec.Request = &approvalv1alpha1.CheckRequest{
		Ref:         approvalv1alpha1.RequestReference{Namespace: req.Namespace, Name: req.Name, UID: req.UID},
		Object:      req.Spec.ObjectRef,
		Subject:     approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: s.devUser},
		RequestedBy: approvalv1alpha1.Identity{Username: s.devUser},
		Reason:      req.Spec.Reason,
		Rule:        approvalv1alpha1.RuleSnapshot{Name: "push", UID: "rule", Generation: 1, Spec: ruleFor(s.prod, "push").Spec},
	}
	require.NoError(s.t, s.controller.Create(s.t.Context(), check))
	return check
}

// grant plays the controller again.
func (s *cliStory) grant(req *approvalv1alpha1.ResourceCheckRequest) {
	s.t.Helper()
	now := metav1.Now()
	req.Status.Validity = &approvalv1alpha1.Validity{NotBefore: now, NotAfter: metav1.NewTime(now.Add(patience))}
	apimeta.SetStatusCondition(&req.Status.Conditions, metav1.Condition{
		Type: approvalv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: approvalv1alpha1.ReasonAllChecksApproved, LastTransitionTime: now,
	})
	require.NoError(s.t, s.controller.Status().Update(s.t.Context(), req))
}

func (s *cliStory) stored(name string) *approvalv1alpha1.ResourceCheckRequest {
	s.t.Helper()
	return reread(s.t, checkRequest(s.team, name))
}

func TestCommandLineTellsTheWholeStory(t *testing.T) {
	s := newCLIStory(t)
	s.dev.must("request", "conn/harbor", "-n", s.prod, "--in", s.team, "--reason", "promote 1.4.2", "--for", "2h", "--use", "Write",
		"--paths", "/v2/app/**", "--before", "2100-01-31T20:00:00+02:00", "-o", "name")
	name := strings.TrimPrefix(strings.TrimSpace(s.dev.out.String()), "resourcecheckrequest.approval.alaudadevops.io/")
	req := s.stored(name)
	assert.True(t, strings.HasPrefix(name, "rcr-"), name)
	assert.Equal(t, "promote 1.4.2", req.Spec.Reason)

	s.dev.must("list", "-n", s.team, "-o", "wide")
	assert.Equal(t, cli.ExitPending, s.dev.run("wait", name, "-n", s.team, "--timeout", "10ms"))

	check := s.check(req)
	assert.Contains(t, s.owner.must("list", "--inbox", "-n", s.prod), check.Name)
	assert.Contains(t, s.owner.must("describe", name, "-n", s.prod), `"promote 1.4.2"`)
	assert.Equal(t, "approved "+s.prod+"/"+check.Name+" (1 of 2 answers)\n",
		s.owner.must("approve", name, "-n", s.prod, "--comment", "fine", "--grant-for", "30m"))
	answers := &approvalv1alpha1.ApprovalResponseList{}
	require.NoError(t, as(t, cluster.Admin()).List(t.Context(), answers, client.InNamespace(s.prod)))
	require.Len(t, answers.Items, 1)
	assert.Equal(t, check.UID, answers.Items[0].Spec.RequestRef.UID)

	s.grant(req)
	assert.Contains(t, s.dev.must("wait", name, "-n", s.team), "granted until")
	assert.Contains(t, s.dev.must("describe", name, "-n", s.team), "Use:          Write /v2/app/**\n")
	assert.Contains(t, s.dev.must("revoke", name, "-n", s.team, "--comment", "done"), "revoked "+s.team+"/"+name)
	assert.Equal(t, "done", s.stored(name).Spec.Revoked.Reason)
	assert.Equal(t, cli.ExitDenied, s.dev.run("wait", name, "-n", s.team))
}

func TestCommandLineSaysWhatIsMissing(t *testing.T) {
	s := newCLIStory(t)
	assert.Equal(t, cli.ExitNotFound, s.dev.run("wait", "rcr-nothing", "-n", s.team))
	assert.Equal(t, cli.ExitNotFound, s.owner.run("approve", "rcr-nothing", "-n", s.prod))

	assert.Equal(t, cli.ExitDenied, s.dev.run("list", "-n", s.prod))
	assert.Equal(t, "error: "+s.devUser+" may not list resourcecheckrequests in namespace "+s.prod+": ask an owner of it for the right\n", s.dev.err.String())

	assert.Equal(t, cli.ExitError, s.dev.run("request", "nothing/x", "-n", s.prod, "--in", s.team))
	assert.Contains(t, s.dev.err.String(), "the cluster does not know this kind")

	assert.Equal(t, cli.ExitError, s.dev.run("request", "connector/harbor", "-n", s.prod, "--in", s.team, "--reason", strings.Repeat("x", 2000)))
	assert.Contains(t, s.dev.err.String(), "error: spec.reason: Too long")

	anonymous := personAt(t, "nobody@example.com")
	require.NoError(t, os.WriteFile(anonymous.kubeconfig, bytes.ReplaceAll(must(os.ReadFile(anonymous.kubeconfig)), []byte("token: "), []byte("token: x")), 0o600))
	assert.Equal(t, cli.ExitError, anonymous.run("list", "-n", s.team))
	assert.Equal(t, "error: the API server does not know you: log in again\n", anonymous.err.String())
}

// TestCommandLineRevokesChecksOfOtherKinds looks a check up by the request's name where only some kinds carry it.
func TestCommandLineRevokesChecksOfOtherKinds(t *testing.T) {
	s := newCLIStory(t)
	window := &approvalv1alpha1.TimeWindowCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.prod, Name: "window", Labels: map[string]string{approvalv1alpha1.LabelRequestUID: "uid-of-request"}},
		Spec: approvalv1alpha1.TimeWindowCheckSpec{
			Windows: []approvalv1alpha1.TimeWindow{{From: "00:00", To: "24:00"}},
			Request: s.question("rcr-window"),
		},
	}
	require.NoError(t, s.controller.Create(t.Context(), window))
	window.Status.State = duckv1alpha1.CheckApproved
	require.NoError(t, s.controller.Status().Update(t.Context(), window))
	assert.Equal(t, "revoked "+s.prod+"/window\n", s.owner.must("revoke", "rcr-window", "-n", s.prod, "--comment", "leaked"))
}

func (s *cliStory) question(request string) *approvalv1alpha1.CheckRequest {
	return &approvalv1alpha1.CheckRequest{
		Ref:         approvalv1alpha1.RequestReference{Namespace: s.team, Name: request},
		Object:      checkRequest(s.prod, "x").Spec.ObjectRef,
		Subject:     approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: s.devUser},
		RequestedBy: approvalv1alpha1.Identity{Username: s.devUser},
		Rule:        approvalv1alpha1.RuleSnapshot{Name: "window", UID: "rule", Generation: 1, Spec: ruleFor(s.prod, "window").Spec},
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
