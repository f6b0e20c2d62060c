package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/archive"
	"github.com/AlaudaDevops/countersign/pkg/checks"
	"github.com/AlaudaDevops/countersign/pkg/controller/checkkind"
	"github.com/AlaudaDevops/countersign/pkg/controller/request"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
	"github.com/AlaudaDevops/countersign/pkg/gate/guarded"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// evidenceSink is an archive in memory that can be made to fail.
type evidenceSink struct {
	mu    sync.Mutex
	fails error
	lines [][]byte
}

func (s *evidenceSink) Write(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails == nil {
		s.lines = append(s.lines, line)
	}
	return s.fails
}

func (s *evidenceSink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

// about are the lines on one request.
func (s *evidenceSink) about(t testing.TB, uid types.UID) []archive.Record {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var records []archive.Record
	for _, line := range s.lines {
		var record archive.Record
		require.NoError(t, json.Unmarshal(line, &record))
		if record.RequestUID == string(uid) {
			records = append(records, record)
		}
	}
	return records
}

// writeCounter counts what changes stored objects, other than events.
type writeCounter struct{ writes atomic.Int64 }

func (w *writeCounter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events") && !strings.Contains(r.URL.Path, "accessreviews") &&
			!strings.Contains(r.URL.Path, "/checkkinds/") {
			w.writes.Add(1)
		}
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// requests runs the request and check kind controllers as the shipped identity, with the shipped rights.
type requests struct {
	t       testing.TB
	sink    *evidenceSink
	counter *writeCounter
	clock   clock.WithTicker
	edit    func(*request.Options)
	stop    func()
	metrics *prometheus.Registry
}

func newRequests(t testing.TB) *requests {
	t.Helper()
	applyCheckKinds(t)
	r := &requests{t: t, sink: &evidenceSink{}, counter: &writeCounter{}, clock: clock.RealClock{}, edit: func(*request.Options) {}}
	t.Cleanup(func() { r.halt() })
	return r
}

func startRequests(t testing.TB) *requests {
	t.Helper()
	r := newRequests(t)
	r.start()
	return r
}

var checkKindsOnce sync.Once

func applyCheckKinds(t testing.TB) {
	t.Helper()
	checkKindsOnce.Do(func() {
		text, err := os.ReadFile("../../config/controller/checkkinds.yaml")
		require.NoError(t, err)
		require.NoError(t, cluster.Apply(t.Context(), cluster.Admin(), string(text), signatureCRD, signatureKind))
	})
}

// signatureCRD is a foreign kind of checks that is answered in its spec, as ApprovalTasks are.
const signatureCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: signatures.request.example.com}
spec:
  group: request.example.com
  names: {kind: Signature, plural: signatures, singular: signature}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// signatureKind registers it, and lets the controller make its checks.
const signatureKind = `
apiVersion: approval.alaudadevops.io/v1alpha1
kind: CheckKind
metadata: {name: signature.request.example.com}
spec:
  apiVersion: request.example.com/v1
  kind: Signature
  state: {cel: "has(self.status) && has(self.status.phase) ? (self.status.phase == 'Signed' ? 'approved' : self.status.phase == 'Refused' ? 'rejected' : self.status.phase) : 'pending'"}
  expand: [.spec.text]
  answers: [".spec.signers[*].signature"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: test-signatures
  labels: {approval.alaudadevops.io/aggregate-to-checks: "true"}
rules:
  - {apiGroups: [request.example.com], resources: ["*"], verbs: [create, delete, get, list, watch]}
`

// start runs the controllers until halt, as after a restart of the process: with empty caches.
func (r *requests) start() {
	r.t.Helper()
	cfg := r.config()
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{ReaderFailOnMissingInformer: true},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(r.t, r.register(ctx, mgr, cfg))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	r.stop = func() {
		cancel()
		require.NoError(r.t, <-done)
	}
}

func (r *requests) config() *rest.Config {
	cfg := cluster.Admin()
	cfg.QPS, cfg.Burst = 500, 1000
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: controllerUser,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + systemNamespace, "system:authenticated"},
	}
	cfg.WrapTransport = transport.WrapperFunc(r.counter.wrap)
	return cfg
}

func (r *requests) register(ctx context.Context, mgr ctrl.Manager, cfg *rest.Config) error {
	kubeClient, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	watcher := guarded.NewWatcher(kubeClient, policies.Options{})
	kinds := &checks.Registry{}
	runs := origin.NewCache(r.clock, dynamicClient, mgr.GetRESTMapper(), origin.DefaultConfig())
	since := func() time.Time { return time.Unix(1, 0) }
	options := request.Options{Username: controllerUser, Retention: 720 * time.Hour, ReasksPerSecond: 1000, Workers: 4}
	r.edit(&options)
	r.metrics = prometheus.NewRegistry()
	controller, err := request.NewController(request.Dependencies{
		Clock: r.clock, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Dynamic: dynamicClient, Metadata: metadataClient,
		Mapper: mgr.GetRESTMapper(), Kinds: kinds, Archive: r.sink, Recorder: mgr.GetEventRecorder("countersign-controller"),
		Metrics: r.metrics,
		Runs: request.Runs{
			Watched: runs, Live: origin.NewLive(dynamicClient, mgr.GetRESTMapper()),
			Climber: origin.NewClimber(runs, origin.DefaultConfig(), since), Since: since,
		},
	}, options)
	if err != nil {
		return err
	}
	runs.OnChange(controller.RunChanged)
	kindController := checkkind.NewController(r.clock, mgr.GetClient(), discoveryClient, watcher, mgr.GetEventRecorder("countersign-controller"))
	return errors.Join(
		request.Index(ctx, mgr.GetFieldIndexer()), mgr.Add(watcher), mgr.Add(runs),
		kindController.Register(ctx, mgr, kinds), controller.Register(ctx, mgr))
}

// gauge is the value of a metric without labels; -1 if there is none.
func (r *requests) gauge(name string) float64 {
	r.t.Helper()
	families, err := r.metrics.Gather()
	require.NoError(r.t, err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return -1
}

// halt stops the controllers; it may be called twice.
func (r *requests) halt() {
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
}

// place is an owner's namespace with a connector, and a requester's.
type place struct {
	t              testing.TB
	owners, asking string
	connector      *connectorsv1alpha1.Connector
	admin          client.Client
	controller     client.Client
}

func newPlace(t testing.TB) *place {
	t.Helper()
	p := &place{t: t, owners: cluster.Namespace(t), asking: cluster.Namespace(t), admin: as(t, cluster.Admin()), controller: controllerClient(t)}
	p.connector = &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.owners, Name: "harbor"},
		Spec:       connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "oci", Address: "https://harbor.example.com"},
	}
	require.NoError(t, p.admin.Create(t.Context(), p.connector))
	return p
}

// rule makes a rule for the connector that olga answers.
func (p *place) rule(name string, edit ...func(*approvalv1alpha1.ResourceCheckRule)) *approvalv1alpha1.ResourceCheckRule {
	p.t.Helper()
	rule := ruleFor(p.owners, name)
	rule.Spec.CheckTemplate.Spec = runtime.RawExtension{Raw: []byte(
		`{"description":"use of $(object.name)","policies":[{"name":"owners","approvers":[{"type":"User","name":"olga"}],"numberOfApprovalsRequired":1}]}`)}
	for _, e := range edit {
		e(rule)
	}
	require.NoError(p.t, p.admin.Create(p.t.Context(), rule))
	return rule
}

// signedBy makes the rule ask by the foreign kind.
func signedBy(rule *approvalv1alpha1.ResourceCheckRule) {
	rule.Spec.CheckTemplate = approvalv1alpha1.CheckTemplate{
		APIVersion: "request.example.com/v1", Kind: "Signature",
		Spec: runtime.RawExtension{Raw: []byte(`{"text":"for $(subject.name)","signers":[{"name":"olga","signature":""}]}`)},
	}
}

// request is what admission would have made of a person's request.
func (p *place) request(name string, edit ...func(*approvalv1alpha1.ResourceCheckRequest)) *approvalv1alpha1.ResourceCheckRequest {
	p.t.Helper()
	r := p.makeRequest(name, edit...)
	require.NoError(p.t, p.admin.Create(p.t.Context(), r))
	return r
}

func (p *place) makeRequest(name string, edit ...func(*approvalv1alpha1.ResourceCheckRequest)) *approvalv1alpha1.ResourceCheckRequest {
	r := checkRequest(p.asking, name)
	r.Spec.ObjectRef.Namespace, r.Spec.ObjectRef.UID = p.owners, p.connector.UID
	r.Spec.Context.Subject = &approvalv1alpha1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: approvalv1alpha1.SubjectUser, Name: "dev"}
	r.Spec.RequestedBy = &approvalv1alpha1.Identity{Username: "dev"}
	for _, e := range edit {
		e(r)
	}
	r.Labels = map[string]string{approvalv1alpha1.LabelFingerprint: keyOf(r).String()}
	return r
}

func keyOf(r *approvalv1alpha1.ResourceCheckRequest) fingerprint.Key {
	question := fingerprint.FromRequest(&r.Spec)
	return fingerprint.Sum(&question)
}

// ready waits until the request's Ready has the reason, and returns the request.
func ready(t testing.TB, r *approvalv1alpha1.ResourceCheckRequest, reason string) *approvalv1alpha1.ResourceCheckRequest {
	t.Helper()
	return when(t, r, reason, func(*approvalv1alpha1.ResourceCheckRequest) bool { return true })
}

// when waits for a reason and something else to be so.
func when(t testing.TB, r *approvalv1alpha1.ResourceCheckRequest, reason string, also func(*approvalv1alpha1.ResourceCheckRequest) bool) *approvalv1alpha1.ResourceCheckRequest {
	t.Helper()
	admin := as(t, cluster.Admin())
	stored := &approvalv1alpha1.ResourceCheckRequest{}
	eventually(t, func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(r), stored); err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(stored.Status.Conditions, approvalv1alpha1.ConditionReady)
		if c == nil {
			return fmt.Errorf("request %s has no Ready yet", r.Name)
		}
		if c.Reason != reason || !also(stored) {
			return fmt.Errorf("request %s is %s: %s", r.Name, c.Reason, c.Message)
		}
		return nil
	})
	return stored
}

// refs waits until the request refers to that many checks.
func refs(n int) func(*approvalv1alpha1.ResourceCheckRequest) bool {
	return func(r *approvalv1alpha1.ResourceCheckRequest) bool { return len(r.Status.RequestRefs) == n }
}

// checkOf is the check for the request's rule.
func (p *place) checkOf(r *approvalv1alpha1.ResourceCheckRequest, rule string) *approvalv1alpha1.ApprovalRequest {
	p.t.Helper()
	for _, ref := range r.Status.RequestRefs {
		if ref.Name == rule {
			check := &approvalv1alpha1.ApprovalRequest{}
			require.NoError(p.t, p.admin.Get(p.t.Context(), types.NamespacedName{Namespace: ref.Namespace, Name: ref.ObjectName}, check))
			require.Equal(p.t, ref.UID, check.UID)
			return check
		}
	}
	require.Failf(p.t, "no check", "request %s refers to no check for rule %s", r.Name, rule)
	return nil
}

// answer writes what the controller of ApprovalRequests would write.
func (p *place) answer(check *approvalv1alpha1.ApprovalRequest, state duckv1alpha1.CheckState, edit ...func(*approvalv1alpha1.ApprovalRequestStatus)) {
	p.t.Helper()
	check.Status = approvalv1alpha1.ApprovalRequestStatus{CheckStatus: duckv1alpha1.CheckStatus{
		State: state, Message: "olga says so", DecidedBy: []duckv1alpha1.CheckDecision{{Username: "olga", Decision: "Approve", Time: metav1.Now()}},
	}}
	for _, e := range edit {
		e(&check.Status)
	}
	require.NoError(p.t, p.controller.Status().Update(p.t.Context(), check))
}

// allChecks are all ApprovalRequests of the owners.
func (p *place) allChecks() []approvalv1alpha1.ApprovalRequest {
	p.t.Helper()
	var list approvalv1alpha1.ApprovalRequestList
	require.NoError(p.t, p.admin.List(p.t.Context(), &list, client.InNamespace(p.owners)))
	return list.Items
}

// cancelled waits until the check says that nobody needs to answer.
func (p *place) cancelled(check *approvalv1alpha1.ApprovalRequest) {
	p.t.Helper()
	stored := &approvalv1alpha1.ApprovalRequest{}
	eventually(p.t, func(ctx context.Context) error {
		if err := p.admin.Get(ctx, client.ObjectKeyFromObject(check), stored); err != nil {
			return err
		}
		if stored.Status.State != duckv1alpha1.CheckCancelled || stored.Status.Reason != duckv1alpha1.CheckReasonRequestEnded || len(stored.Status.WaitingFor) > 0 {
			return fmt.Errorf("check %s is %s", check.Name, stored.Status.State)
		}
		return nil
	})
}
