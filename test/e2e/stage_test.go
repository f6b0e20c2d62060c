package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// stage is one test's part of the environment: a namespace with a protected tool, one where a team asks.
type stage struct {
	*testing.T
	ctx   context.Context
	admin client.Client
	// prod holds the connector and its rules, team the requests and runs.
	prod, team string
	tool       *httptest.Server
	// reached counts the requests that came through to the tool.
	reached atomic.Int64
}

const connectorName = "tool"

// newStage makes both namespaces, with the rights of the development environment, and a tool that answers
// everything with its path. The test runs beside the others: nothing of it is theirs.
func newStage(t *testing.T) *stage {
	t.Helper()
	t.Parallel()
	return newStageAlone(t)
}

// newStageAlone is for tests that disturb the others: they run before them, one after the other.
func newStageAlone(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, ctx: t.Context(), admin: plane.as(t, "admin")}
	s.tool = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.reached.Add(1)
		_, _ = fmt.Fprintf(w, "tool saw %s %s", r.Method, r.URL.Path)
	}))
	t.Cleanup(s.tool.Close)
	s.prod, s.team = s.namespace("prod-"), s.namespace("team-")
	s.bind(s.prod, "countersign-connector-user", group("developers"), group("prod-owners"), account(s.team, "pipeline"), account(s.team, "default"))
	s.bind(s.prod, "countersign-owner", group("prod-owners"))
	s.bind(s.prod, "countersign-approver", group("prod-owners"))
	s.bind(s.team, "countersign-requester", group("developers"), account(s.team, "pipeline"), account(s.team, "default"))
	s.bind(s.team, "edit", group("developers"))
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: "pipeline"}})
	s.create(s.connector(connectorName))
	return s
}

func (s *stage) namespace(prefix string) string {
	s.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	require.NoError(s, s.admin.Create(s.ctx, ns))
	s.Cleanup(func() { _ = s.admin.Delete(context.Background(), ns) })
	s.eventually("the default service account exists", func() error {
		return s.admin.Get(s.ctx, client.ObjectKey{Namespace: ns.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
	return ns.Name
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

func (s *stage) bind(namespace, role string, subjects ...rbacv1.Subject) {
	s.Helper()
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   subjects,
	})
}

func (s *stage) connector(name string) *connectorsv1alpha1.Connector {
	return &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.prod, Name: name},
		Spec:       connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "any", Address: s.tool.URL, RequireChecks: true},
	}
}

func (s *stage) fetchConnector(name string) *connectorsv1alpha1.Connector {
	s.Helper()
	connector := &connectorsv1alpha1.Connector{}
	require.NoError(s, s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.prod, Name: name}, connector))
	return connector
}

// create creates as administrator. For some seconds after a CRD was installed the API server refuses its objects.
func (s *stage) create(obj client.Object) {
	s.Helper()
	var err error
	s.eventually("the API server takes a "+reflect.TypeOf(obj).Elem().Name(), func() error {
		err = s.admin.Create(s.ctx, obj)
		if apierrors.IsServiceUnavailable(err) {
			return err
		}
		return nil
	})
	require.NoError(s, err)
}

// newRule is a rule for the connector with the given template.
func (s *stage) newRule(name, kind, spec string, changes ...func(*approvalv1alpha1.ResourceCheckRule)) *approvalv1alpha1.ResourceCheckRule {
	rule := &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.prod, Name: name},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{
				APIVersion: connectorsv1alpha1.GroupVersion.String(), Kind: connectorsv1alpha1.KindConnector, Name: connectorName,
			},
			CheckTemplate: approvalv1alpha1.CheckTemplate{
				APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: kind, Spec: runtime.RawExtension{Raw: []byte(spec)},
			},
		},
	}
	for _, change := range changes {
		change(rule)
	}
	return rule
}

// rule makes a rule and waits until it is ready.
func (s *stage) rule(name, kind, spec string, changes ...func(*approvalv1alpha1.ResourceCheckRule)) *approvalv1alpha1.ResourceCheckRule {
	s.Helper()
	rule := s.newRule(name, kind, spec, changes...)
	s.create(rule)
	s.eventually("the rule "+name+" is ready", func() error {
		return readyIs(s.fetchRule(name).Status.Conditions, metav1.ConditionTrue)
	})
	return rule
}

// editRule changes a rule's spec.
func (s *stage) editRule(name string, change func(*approvalv1alpha1.ResourceCheckRuleSpec)) {
	s.Helper()
	require.NoError(s, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		rule := s.fetchRule(name)
		change(&rule.Spec)
		return s.admin.Update(s.ctx, rule)
	}))
}

func (s *stage) fetchRule(name string) *approvalv1alpha1.ResourceCheckRule {
	s.Helper()
	rule := &approvalv1alpha1.ResourceCheckRule{}
	require.NoError(s, s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.prod, Name: name}, rule))
	return rule
}

// people is a template that asks the owners for so many answers.
func people(answers int) string {
	return fmt.Sprintf(`{"policies":[{"name":"owners","approvers":[{"type":"Group","name":"prod-owners"}],"numberOfApprovalsRequired":%d}]}`, answers)
}

func readyIs(conditions []metav1.Condition, want metav1.ConditionStatus) error {
	ready := apimeta.FindStatusCondition(conditions, approvalv1alpha1.ConditionReady)
	if ready == nil {
		return fmt.Errorf("there is no condition Ready yet")
	}
	if ready.Status != want {
		return fmt.Errorf("Ready is %s (%s: %s), not %s", ready.Status, ready.Reason, ready.Message, want)
	}
	return nil
}

// ask makes a request as somebody; changes fill in what is asked.
func (s *stage) ask(as client.Client, changes ...func(*approvalv1alpha1.ResourceCheckRequest)) (*approvalv1alpha1.ResourceCheckRequest, error) {
	request := &approvalv1alpha1.ResourceCheckRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.team, GenerateName: approvalv1alpha1.ReservedNamePrefix},
		Spec: approvalv1alpha1.ResourceCheckRequestSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{
				APIVersion: connectorsv1alpha1.GroupVersion.String(), Kind: connectorsv1alpha1.KindConnector, Namespace: s.prod, Name: connectorName,
			},
			Reason: "the test asks",
		},
	}
	for _, change := range changes {
		change(request)
	}
	return request, as.Create(s.ctx, request)
}

func (s *stage) mustAsk(as client.Client, changes ...func(*approvalv1alpha1.ResourceCheckRequest)) *approvalv1alpha1.ResourceCheckRequest {
	s.Helper()
	request, err := s.ask(as, changes...)
	require.NoError(s, err)
	return request
}

func (s *stage) fetch(request *approvalv1alpha1.ResourceCheckRequest) *approvalv1alpha1.ResourceCheckRequest {
	s.Helper()
	fresh := &approvalv1alpha1.ResourceCheckRequest{}
	require.NoError(s, s.admin.Get(s.ctx, client.ObjectKeyFromObject(request), fresh))
	return fresh
}

// named is a request of which only the name is known.
func named(namespace, name string) *approvalv1alpha1.ResourceCheckRequest {
	return &approvalv1alpha1.ResourceCheckRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func reasonOf(request *approvalv1alpha1.ResourceCheckRequest) string {
	ready := apimeta.FindStatusCondition(request.Status.Conditions, approvalv1alpha1.ConditionReady)
	if ready == nil {
		return ""
	}
	return ready.Reason
}

// reaches waits until the request shows a reason.
func (s *stage) reaches(request *approvalv1alpha1.ResourceCheckRequest, reason string) *approvalv1alpha1.ResourceCheckRequest {
	s.Helper()
	var fresh *approvalv1alpha1.ResourceCheckRequest
	s.eventually("the request shows "+reason, func() error {
		fresh = s.fetch(request)
		if got := reasonOf(fresh); got != reason {
			return fmt.Errorf("it shows %q: %+v", got, fresh.Status.Conditions)
		}
		return nil
	})
	return fresh
}

// revoke takes a request back as somebody.
func (s *stage) revoke(as client.Client, request *approvalv1alpha1.ResourceCheckRequest, reason string) error {
	patch := fmt.Appendf(nil, `{"spec":{"revoked":{"reason":%q}}}`, reason)
	return as.Patch(s.ctx, request.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
}

// checks are the human checks in the object's namespace that the request waits for or was decided by.
func (s *stage) checks() []approvalv1alpha1.ApprovalRequest {
	s.Helper()
	var list approvalv1alpha1.ApprovalRequestList
	require.NoError(s, s.admin.List(s.ctx, &list, client.InNamespace(s.prod)))
	return list.Items
}

// asks is the check of a request for a rule as the rule is now.
func (s *stage) asks(request *approvalv1alpha1.ResourceCheckRequest, rule string) *approvalv1alpha1.CheckReference {
	s.Helper()
	var ref *approvalv1alpha1.CheckReference
	s.eventually("the request has a check for rule "+rule, func() error {
		now, status := s.fetchRule(rule), s.fetch(request).Status
		result := slices.IndexFunc(status.Results, func(r approvalv1alpha1.CheckResult) bool {
			return r.UID == now.UID && r.Generation == now.Generation
		})
		check := slices.IndexFunc(status.RequestRefs, func(r approvalv1alpha1.CheckReference) bool { return r.Name == rule })
		if result < 0 || check < 0 {
			return fmt.Errorf("it has none: %+v", status)
		}
		ref = &status.RequestRefs[check]
		return nil
	})
	return ref
}

// answer answers the check of a request for a rule as somebody.
func (s *stage) answer(person string, request *approvalv1alpha1.ResourceCheckRequest, rule string, decision approvalv1alpha1.ApprovalDecision) error {
	s.Helper()
	ref := s.asks(request, rule)
	response := &approvalv1alpha1.ApprovalResponse{
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, GenerateName: "answer-"},
		Spec: approvalv1alpha1.ApprovalResponseSpec{
			RequestRef: approvalv1alpha1.CheckTarget{Name: ref.ObjectName}, Decision: decision, Comment: "said the test",
		},
	}
	return plane.as(s.T, person).Create(s.ctx, response)
}

// approve lets both owners approve the check of a rule that wants so many answers.
func (s *stage) approve(request *approvalv1alpha1.ResourceCheckRequest, rule string, answers int) {
	s.Helper()
	for _, person := range []string{"owner1", "owner2"}[:answers] {
		require.NoError(s, s.answer(person, request, rule, approvalv1alpha1.DecisionApprove))
	}
}

// outcome is what the proxy answered.
type outcome struct {
	status int
	reason string
	body   string
}

// use calls the connector through the proxy.
func (s *stage) use(token, method, path string) outcome {
	s.Helper()
	return s.useOf(connectorName, token, method, path)
}

func (s *stage) useOf(connector, token, method, path string) outcome {
	s.Helper()
	url := plane.values["PROXY_URL"] + "/namespaces/" + s.prod + "/connectors/" + connector + path
	req, err := http.NewRequestWithContext(s.ctx, method, url, http.NoBody)
	require.NoError(s, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := httpClient(s).Do(req)
	require.NoError(s, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	require.NoError(s, err)
	return outcome{status: res.StatusCode, reason: res.Header.Get("Countersign-Reason"), body: string(body)}
}

func httpClient(t testing.TB) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(plane.values["PROXY_CA"])
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(ca))
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}
}

// allowed waits until the caller comes through.
func (s *stage) allowed(token, method, path string) {
	s.Helper()
	s.eventually(method+" "+path+" comes through", func() error {
		if got := s.use(token, method, path); got.status != http.StatusOK {
			return fmt.Errorf("it is %d %s: %s", got.status, got.reason, got.body)
		}
		return nil
	})
}

// refused waits until the caller is refused for a reason with all these words, and sees that the tool was not
// reached by that.
func (s *stage) refused(token, method, path, reason string, says ...string) outcome {
	s.Helper()
	var got outcome
	s.eventually(method+" "+path+" is refused with "+reason, func() error {
		before := s.reached.Load()
		got = s.use(token, method, path)
		if got.reason != reason {
			return fmt.Errorf("it is %d %s: %s", got.status, got.reason, got.body)
		}
		for _, words := range says {
			if !strings.Contains(got.body, words) {
				return fmt.Errorf("it does not say %q: %s", words, got.body)
			}
		}
		if s.reached.Load() != before {
			return fmt.Errorf("the tool was reached although the caller was refused")
		}
		return nil
	})
	return got
}

// eventually waits for a condition and fails with the last reason why it does not hold.
func (s *stage) eventually(what string, holds func() error) {
	s.Helper()
	eventually(s, what, holds)
}

// eventuallyWithin is for what takes longer by its nature.
func (s *stage) eventuallyWithin(patience time.Duration, what string, holds func() error) {
	s.Helper()
	within(s, patience, what, holds)
}

func eventually(t testing.TB, what string, holds func() error) {
	t.Helper()
	within(t, timeout, what, holds)
}

func within(t testing.TB, patience time.Duration, what string, holds func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = holds()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("never: %s: %v", what, last)
	}
}

// job makes a Job as somebody and waits for its pods, which the real job controller makes.
func (s *stage) job(as client.Client, name string, pods int32) (*batchv1.Job, []corev1.Pod) {
	s.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: name},
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: &pods,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: "pipeline",
				Containers: []corev1.Container{{Name: "main", Image: "main"}},
			}},
		},
	}
	require.NoError(s, as.Create(s.ctx, job))
	var list corev1.PodList
	s.eventually("the job has its pods", func() error {
		if err := s.admin.List(s.ctx, &list, client.InNamespace(s.team), client.MatchingLabels{"batch.kubernetes.io/controller-uid": string(job.UID)}); err != nil {
			return err
		}
		if len(list.Items) != int(pods) {
			return fmt.Errorf("it has %d", len(list.Items))
		}
		return nil
	})
	return job, list.Items
}

// podToken is what a kubelet projects into the pod: a token for the proxy, bound to the pod.
func (s *stage) podToken(pod *corev1.Pod, audience string) string {
	s.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	review := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if audience != "" {
		review.Spec.Audiences = []string{audience}
	}
	require.NoError(s, s.admin.SubResource("token").Create(s.ctx, account, review))
	return review.Status.Token
}

func (s *stage) proxyToken(pod *corev1.Pod) string {
	s.Helper()
	return s.podToken(pod, plane.values["PROXY_AUDIENCE"])
}

// inPod is a client with the pod's own token for the API server.
func (s *stage) inPod(pod *corev1.Pod) client.Client {
	s.Helper()
	return s.bearing(s.podToken(pod, ""))
}

// bearing is a client with a token for the API server and nothing else.
func (s *stage) bearing(token string) client.Client {
	s.Helper()
	config := rest.AnonymousClientConfig(plane.config(s.T, "admin"))
	config.QPS, config.Burst = 200, 400
	config.BearerToken = token
	return plane.client(s.T, config)
}

// problem reads a refusal as application/problem+json.
func problem(t testing.TB, o outcome) map[string]any {
	t.Helper()
	fields := map[string]any{}
	require.NoErrorf(t, json.Unmarshal([]byte(o.body), &fields), "the refusal is no JSON: %s", o.body)
	return fields
}

// refusedBy sees that the API server refused with one clear sentence.
func refusedBy(t testing.TB, err error, wants ...string) {
	t.Helper()
	require.Error(t, err)
	require.Truef(t, apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err),
		"it must be refused by admission, not fail: %v", err)
	for _, want := range wants {
		assert.Contains(t, strings.ToLower(err.Error()), strings.ToLower(want))
	}
}
