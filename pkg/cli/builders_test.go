package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

var now = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

const kubeconfig = `
apiVersion: v1
kind: Config
current-context: dev
contexts: [{name: dev, context: {cluster: dev, user: dev, namespace: team-a}}]
clusters: [{name: dev, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: dev, user: {token: not-used}}]
`

// bench is a program on a cluster in memory.
type bench struct {
	t          *testing.T
	user       string
	groups     []string
	asserted   bool
	objects    []client.Object
	funcs      interceptor.Funcs
	config     *rest.Config
	clock      *clocktesting.FakeClock
	kubeconfig string
	in         string
	resources  []*metav1.APIResourceList
	kinds      []func(*runtime.Scheme) error
	client     client.WithWatch
	out, err   lockedBuffer
}

func makeBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	t.Setenv("PROXY_URL", "")
	t.Setenv("PROXY_CA", "")
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(kubeconfig), 0o600))
	return &bench{
		t: t, user: "dev@example.com", groups: []string{"developers"}, objects: objects, kubeconfig: file,
		config: &rest.Config{BearerToken: "not-used"}, clock: clocktesting.NewFakeClock(now),
	}
}

func (b *bench) as(user string, groups ...string) *bench {
	b.user, b.groups = user, groups
	return b
}

// asserting is impersonation, with which no credential is seen.
func (b *bench) asserting() *bench {
	b.asserted = true
	return b
}

// program builds the cluster on first use.
func (b *bench) program() *program {
	if b.client == nil {
		known := scheme()
		for _, add := range b.kinds {
			require.NoError(b.t, add(known))
		}
		b.client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(known).WithRESTMapper(mapper()).
			WithStatusSubresource(&approvalv1alpha1.ResourceCheckRequest{}, &approvalv1alpha1.ApprovalRequest{}).
			WithObjects(b.objects...).Build(), b.intercepted())
	}
	p := newProgram(genericiooptions.IOStreams{In: strings.NewReader(b.in), Out: &b.out, ErrOut: &b.err})
	p.clock = b.clock
	p.resources = func(*program) ([]*metav1.APIResourceList, error) { return b.resources, nil }
	p.dial = func(*program) (*cluster, error) { return &cluster{WithWatch: b.client, config: b.config}, nil }
	return p
}

func (b *bench) run(args ...string) int {
	b.t.Helper()
	b.out.Reset()
	b.err.Reset()
	return b.start(b.t.Context(), args...)
}

func (b *bench) start(ctx context.Context, args ...string) int {
	return b.program().run(ctx, append([]string{"--kubeconfig", b.kubeconfig}, args...))
}

// intercepted lets the server say who the caller is.
func (b *bench) intercepted() interceptor.Funcs {
	funcs := b.funcs
	create := funcs.Create
	funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if review, ok := o.(*authenticationv1.SelfSubjectReview); ok {
			review.Status.UserInfo = authenticationv1.UserInfo{Username: b.user, Groups: b.groups}
			if !b.asserted {
				review.Status.UserInfo.Extra = map[string]authenticationv1.ExtraValue{approvalv1alpha1.ExtraCredentialID: {"JTI=1"}}
			}
			return nil
		}
		if create != nil {
			return create(ctx, c, o, opts...)
		}
		return c.Create(ctx, o, opts...)
	}
	return funcs
}

func mapper() apimeta.RESTMapper {
	m := apimeta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"ResourceCheckRequest", "ApprovalRequest", "ApprovalResponse", "TimeWindowCheck", "ScriptCheck"} {
		m.Add(approvalv1alpha1.GroupVersion.WithKind(kind), apimeta.RESTScopeNamespace)
	}
	m.Add(approvalv1alpha1.GroupVersion.WithKind("CheckKind"), apimeta.RESTScopeRoot)
	m.Add(connectorsv1alpha1.GroupVersion.WithKind("Connector"), apimeta.RESTScopeNamespace)
	m.Add(releasev1alpha1.GroupVersion.WithKind(releasev1alpha1.KindReleasePlan), apimeta.RESTScopeNamespace)
	m.Add(batchv1.SchemeGroupVersion.WithKind("Job"), apimeta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), apimeta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), apimeta.RESTScopeNamespace)
	return m
}

// ownToken is what the server stores of somebody who came with a token of his own.
func ownToken() map[string]approvalv1alpha1.ExtraValue {
	return map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: {"JTI=1"}}
}

type requestBuilder struct {
	r approvalv1alpha1.ResourceCheckRequest
}

// makeRequest is dev's wish to push, made five minutes ago.
func makeRequest(name string) *requestBuilder {
	b := &requestBuilder{}
	b.r.Name, b.r.Namespace, b.r.UID = name, "team-a", types.UID("uid-"+name)
	b.r.CreationTimestamp = metav1.NewTime(now.Add(-5 * time.Minute))
	b.r.Spec = approvalv1alpha1.ResourceCheckRequestSpec{
		ObjectRef: approvalv1alpha1.ObjectReference{
			APIVersion: connectorsv1alpha1.GroupVersion.String(), Kind: "Connector", Namespace: "prod", Name: "prod-harbor",
		},
		Context:     approvalv1alpha1.RequestContext{Subject: &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "dev@example.com"}},
		RequestedBy: &approvalv1alpha1.Identity{Username: "dev@example.com", Extra: ownToken()},
		Reason:      "promote 1.4.2",
	}
	return b
}

func (b *requestBuilder) With(change func(*approvalv1alpha1.ResourceCheckRequest)) *requestBuilder {
	change(&b.r)
	return b
}

func (b *requestBuilder) Ready(status metav1.ConditionStatus, reason, message string) *requestBuilder {
	apimeta.SetStatusCondition(&b.r.Status.Conditions, metav1.Condition{
		Type: approvalv1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now),
	})
	return b
}

// Pending waits for one more owner.
func (b *requestBuilder) Pending() *requestBuilder {
	b.r.Status.Rules = []approvalv1alpha1.RuleSnapshot{{
		Name: "push", UID: "rule", Generation: 3, LastAuthor: "owner1@example.com",
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{When: &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{"Write"}}},
	}}
	b.r.Status.RequestRefs = []approvalv1alpha1.CheckReference{{Name: "push", Kind: "ApprovalRequest", Namespace: "prod", ObjectName: "check-push"}}
	b.r.Status.Results = []approvalv1alpha1.CheckResult{{
		Name: "push", UID: "rule", Generation: 3, State: duckv1alpha1.CheckPending,
		Message: "Waiting for approvals: policy owners has 1 of 2.",
		DecidedBy: []duckv1alpha1.CheckDecision{{
			Username: "owner1@example.com", Decision: "Approve", Time: metav1.NewTime(now.Add(-time.Minute)), Comment: "fine \x1b[2J",
		}},
		WaitingFor: []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForGroup, Name: "prod-owners", Missing: 1}},
	}}
	return b.Ready(metav1.ConditionUnknown, approvalv1alpha1.ReasonChecksPending, "1 of 1 checks is pending.")
}

// Granted holds for another hour.
func (b *requestBuilder) Granted() *requestBuilder {
	b.Pending()
	b.r.Status.Results[0].Message = "Approved by owner1@example.com and owner2@example.com."
	b.r.Status.Results[0].State, b.r.Status.Results[0].WaitingFor = duckv1alpha1.CheckApproved, nil
	b.r.Status.Validity = &approvalv1alpha1.Validity{NotBefore: metav1.NewTime(now), NotAfter: metav1.NewTime(now.Add(time.Hour))}
	return b.Ready(metav1.ConditionTrue, approvalv1alpha1.ReasonAllChecksApproved, "")
}

func (b *requestBuilder) Ended(reason, message string) *requestBuilder {
	b.r.Status.Ended = &approvalv1alpha1.Ended{At: metav1.NewTime(now.Add(-time.Minute)), Reason: reason, Message: message}
	return b.Ready(metav1.ConditionFalse, reason, message)
}

func (b *requestBuilder) Obj() *approvalv1alpha1.ResourceCheckRequest { return b.r.DeepCopy() }

type checkBuilder struct {
	c approvalv1alpha1.ApprovalRequest
}

// makeCheck asks the group prod-owners for two answers to a request.
func makeCheck(name, request string) *checkBuilder {
	b := &checkBuilder{}
	b.c.Name, b.c.Namespace, b.c.UID = name, "prod", types.UID("uid-"+name)
	b.c.CreationTimestamp = metav1.NewTime(now.Add(-5 * time.Minute))
	b.c.Spec = approvalv1alpha1.ApprovalRequestSpec{
		Policies: []approvalv1alpha1.ApprovalPolicy{{
			Name: "owners", NumberOfApprovalsRequired: 2,
			Approvers: []approvalv1alpha1.Approver{{Type: approvalv1alpha1.ApproverGroup, Name: "prod-owners"}},
		}},
		Timeout: &metav1.Duration{Duration: 24 * time.Hour},
		Request: &approvalv1alpha1.CheckRequest{
			Ref:         approvalv1alpha1.RequestReference{Namespace: "team-a", Name: request, UID: types.UID("uid-" + request)},
			Object:      makeRequest(request).r.Spec.ObjectRef,
			Subject:     approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectServiceAccount, Namespace: "team-a", Name: "pipeline"},
			RequestedBy: approvalv1alpha1.Identity{Username: "dev@example.com", Extra: ownToken()},
			Reason:      "promote\n1.4.2",
			Rule:        approvalv1alpha1.RuleSnapshot{Name: "push", Generation: 3, LastAuthor: "owner1@example.com"},
			Excluded:    []string{"dev@example.com"},
		},
	}
	b.c.Status.Policies = []approvalv1alpha1.PolicyStatus{{Name: "owners"}}
	b.c.Status.State = duckv1alpha1.CheckPending
	return b
}

func (b *checkBuilder) With(change func(*approvalv1alpha1.ApprovalRequest)) *checkBuilder {
	change(&b.c)
	return b
}

func (b *checkBuilder) State(state duckv1alpha1.CheckState) *checkBuilder {
	b.c.Status.State = state
	return b
}

func (b *checkBuilder) ApprovedBy(user string) *checkBuilder {
	b.c.Status.Policies[0].Approvals++
	b.c.Status.DecidedBy = append(b.c.Status.DecidedBy, duckv1alpha1.CheckDecision{
		Username: user, Decision: "Approve", Time: metav1.NewTime(now.Add(-time.Minute)),
	})
	return b
}

func (b *checkBuilder) Obj() *approvalv1alpha1.ApprovalRequest { return b.c.DeepCopy() }

var requestResource = schema.GroupResource{Group: approvalv1alpha1.GroupVersion.Group, Resource: "resourcecheckrequests"}

func conflict(name string) error { return apierrors.NewGenerateNameConflict(requestResource, name, 1) }

// lockedBuffer is written to by a verb while the test reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *lockedBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Reset()
}
