package connector

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

const password = "s3cr3t-value"

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

type world struct {
	t        *testing.T
	clock    *testingclock.FakeClock
	client   client.Client
	events   *events.FakeRecorder
	ctrl     *Controller
	requeued time.Duration
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{approvalv1alpha1.AddToScheme, connectorsv1alpha1.AddToScheme, corev1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	w := &world{t: t, clock: testingclock.NewFakeClock(start), events: events.NewFakeRecorder(100)}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&connectorsv1alpha1.Connector{}).Build()
	w.ctrl = NewController(w.clock, w.client, w.client, w.events, Options{
		Namespace: "countersign-system", ProxyService: "countersign-proxy", ProxyURL: "https://proxy.example.com/", Timeout: 10 * time.Second})
	return w
}

func makeConnector(class string, change ...func(*connectorsv1alpha1.Connector)) *connectorsv1alpha1.Connector {
	connector := &connectorsv1alpha1.Connector{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "harbor", UID: "o1", Generation: 3},
		Spec: connectorsv1alpha1.ConnectorSpec{ConnectorClassName: class, Address: "https://tool.example.com",
			Auth: &connectorsv1alpha1.ConnectorAuth{SecretRef: &connectorsv1alpha1.SecretReference{Name: "login"}}},
	}
	for _, c := range change {
		c(connector)
	}
	return connector
}

// makeSecret takes keys and values by turns.
func makeSecret(name string, kind corev1.SecretType, pairs ...string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}, Type: kind, Data: map[string][]byte{}}
	for i := 0; i < len(pairs); i += 2 {
		secret.Data[pairs[i]] = []byte(pairs[i+1])
	}
	return secret
}

func basic() *corev1.Secret {
	return makeSecret("login", corev1.SecretTypeBasicAuth, "username", "robot", "password", password)
}

func (w *world) connector() *connectorsv1alpha1.Connector {
	w.t.Helper()
	connector := &connectorsv1alpha1.Connector{}
	require.NoError(w.t, w.client.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: "harbor"}, connector))
	return connector
}

func (w *world) reconcile() *connectorsv1alpha1.Connector {
	w.t.Helper()
	result, err := w.ctrl.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "prod", Name: "harbor"}})
	require.NoError(w.t, err)
	w.requeued = result.RequeueAfter
	return w.connector()
}

func (w *world) event() string {
	select {
	case e := <-w.events.Events:
		return e
	default:
		return ""
	}
}

func ready(connector *connectorsv1alpha1.Connector) *metav1.Condition {
	return apimeta.FindStatusCondition(connector.Status.Conditions, approvalv1alpha1.ConditionReady)
}

func TestReady(t *testing.T) {
	w := newWorld(t, makeConnector("oci"), basic())
	connector := w.reconcile()
	assert.Equal(t, metav1.ConditionTrue, ready(connector).Status)
	assert.Equal(t, int64(3), connector.Status.ObservedGeneration)
	assert.Equal(t, "robot", connector.Status.Identity)
	assert.Equal(t, "https://proxy.example.com/namespaces/prod/connectors/harbor", connector.Status.Proxy.HTTPAddress.URL)
	assert.True(t, ready(connector).LastTransitionTime.Time.Equal(start))
	assert.Equal(t, recheckReady, w.requeued)
	assert.Contains(t, w.event(), "Normal Ready")

	version := connector.ResourceVersion
	w.clock.Step(time.Hour)
	assert.Equal(t, version, w.reconcile().ResourceVersion, "nothing is written while nothing changes")
	assert.Empty(t, w.event())
}

func TestService(t *testing.T) {
	key := client.ObjectKey{Namespace: "prod", Name: "c-harbor"}
	t.Run("is made, and put back", func(t *testing.T) {
		w := newWorld(t, makeConnector("oci"), basic())
		w.reconcile()
		var service corev1.Service
		require.NoError(t, w.client.Get(context.Background(), key, &service))
		assert.Equal(t, "countersign-proxy.countersign-system.svc.cluster.local", service.Spec.ExternalName)
		assert.True(t, metav1.IsControlledBy(&service, w.connector()))

		service.Spec.ExternalName = "evil.example.com"
		require.NoError(t, w.client.Update(context.Background(), &service))
		w.reconcile()
		require.NoError(t, w.client.Get(context.Background(), key, &service))
		assert.Equal(t, "countersign-proxy.countersign-system.svc.cluster.local", service.Spec.ExternalName)
	})
	t.Run("of somebody else is left alone", func(t *testing.T) {
		other := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c-harbor"}, Spec: corev1.ServiceSpec{ClusterIP: "None"}}
		w := newWorld(t, makeConnector("oci"), basic(), other)
		condition := ready(w.reconcile())
		assert.Equal(t, approvalv1alpha1.ReasonInvalidSpec, condition.Reason)
		assert.Equal(t, "the Service c-harbor belongs to somebody else; delete it or give the connector another name", condition.Message)
		var service corev1.Service
		require.NoError(t, w.client.Get(context.Background(), key, &service))
		assert.Equal(t, "None", service.Spec.ClusterIP)
	})
}

func TestNotReady(t *testing.T) {
	ca := func(c *connectorsv1alpha1.Connector) {
		c.Spec.CACertSecretRef = &connectorsv1alpha1.SecretReference{Name: "ca"}
	}
	tests := map[string]struct {
		connector *connectorsv1alpha1.Connector
		secrets   []client.Object
		reason    string
		message   string
	}{
		"no Secret":           {makeConnector("oci"), nil, "SecretMissing", "the Secret login does not exist in namespace prod; make it"},
		"unknown type":        {makeConnector("oci"), []client.Object{makeSecret("login", corev1.SecretTypeOpaque, "password", password)}, "SecretInvalid", `the Secret login has the type "Opaque"; use kubernetes.io/basic-auth, connectors.cpaas.io/bearer-token or connectors.alaudadevops.io/headers`},
		"no password":         {makeConnector("oci"), []client.Object{makeSecret("login", corev1.SecretTypeBasicAuth, "username", "robot")}, "SecretInvalid", "the Secret login of type kubernetes.io/basic-auth lacks the key password; add it"},
		"colon in user name":  {makeConnector("oci"), []client.Object{makeSecret("login", corev1.SecretTypeBasicAuth, "username", "a:b", "password", password)}, "SecretInvalid", "the Secret login has a colon under the key username"},
		"empty token":         {makeConnector("any"), []client.Object{makeSecret("login", connectorsv1alpha1.SecretTypeBearerToken, "token", "\n")}, "SecretInvalid", "lacks the key token; add it"},
		"token of two lines":  {makeConnector("any"), []client.Object{makeSecret("login", connectorsv1alpha1.SecretTypeBearerToken, "token", password+"\n"+password)}, "SecretInvalid", "holds under the key token what no HTTP header can carry"},
		"no headers":          {makeConnector("any"), []client.Object{makeSecret("login", connectorsv1alpha1.SecretTypeHeaders)}, "SecretInvalid", "holds no header"},
		"no header's name":    {makeConnector("any"), []client.Object{makeSecret("login", connectorsv1alpha1.SecretTypeHeaders, "a b", password)}, "SecretInvalid", `holds the key "a b", which is no header's name`},
		"CA missing":          {makeConnector("oci", ca), []client.Object{basic()}, "SecretMissing", "the Secret ca does not exist in namespace prod; make it"},
		"CA is no PEM":        {makeConnector("oci", ca), []client.Object{basic(), makeSecret("ca", corev1.SecretTypeOpaque, "ca.crt", password)}, "SecretInvalid", "the Secret ca holds no PEM certificate under the key ca.crt"},
		"Secret from outside": {makeConnector("oci", func(c *connectorsv1alpha1.Connector) { c.Spec.Auth.SecretRef.Namespace = "kube-system" }), nil, "InvalidSpec", "spec.auth.secretRef names a Secret of namespace kube-system"},
		"broken pattern": {makeConnector("oci", func(c *connectorsv1alpha1.Connector) {
			c.Spec.Operations = []connectorsv1alpha1.ConnectorOperation{{Class: "Read", Paths: []string{"/a/**/b"}}}
		}), []client.Object{basic()}, "InvalidSpec", "spec.operations[0] cannot be read, so it counts as a write"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(tt.secrets, tt.connector)...)
			connector := w.reconcile()
			condition := ready(connector)
			assert.Equal(t, metav1.ConditionFalse, condition.Status)
			assert.Equal(t, tt.reason, condition.Reason)
			assert.Contains(t, condition.Message, tt.message)
			assert.Equal(t, recheckNotReady, w.requeued)
			told, event := ready(connector).String(), w.event()
			assert.Contains(t, event, "Warning "+tt.reason)
			assert.NotContains(t, told+event, password, "nothing of a Secret is told")
		})
	}
}

func TestNoLoginIsFine(t *testing.T) {
	w := newWorld(t, makeConnector("any", func(c *connectorsv1alpha1.Connector) { c.Spec.Auth = nil }))
	assert.Equal(t, metav1.ConditionTrue, ready(w.reconcile()).Status)
}

func TestKnownIdentityStandsWhileItCannotBeAsked(t *testing.T) {
	w := newWorld(t, makeConnector("oci", func(c *connectorsv1alpha1.Connector) { c.Status.Identity = "robot" }))
	assert.Equal(t, "robot", w.reconcile().Status.Identity, "who was the connector before may have created what runs now")
}

// tool is a Kubernetes API server that knows one caller.
type tool struct {
	*httptest.Server
	user  authenticationv1.UserInfo
	rules map[string][]authorizationv1.ResourceRule
	seen  http.Header
}

func newTool(t *testing.T, user authenticationv1.UserInfo) *tool {
	t.Helper()
	api := &tool{user: user, rules: map[string][]authorizationv1.ResourceRule{}}
	api.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.seen = r.Header.Clone()
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
			_ = json.NewEncoder(w).Encode(authenticationv1.SelfSubjectReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
				Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: api.user}})
			return
		}
		var review authorizationv1.SelfSubjectRulesReview
		if json.NewDecoder(r.Body).Decode(&review) != nil {
			http.Error(w, "no JSON", http.StatusUnsupportedMediaType)
			return
		}
		review.Status.ResourceRules = api.rules[review.Spec.Namespace]
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(api.Close)
	return api
}

func (a *tool) objects() []client.Object {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	return []client.Object{
		makeSecret("ca", corev1.SecretTypeOpaque, "ca.crt", string(ca)),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-apps", Name: "deployer", UID: "sa1"}},
		makeConnector("k8s", func(c *connectorsv1alpha1.Connector) {
			c.Spec.Address = a.URL
			c.Spec.CACertSecretRef = &connectorsv1alpha1.SecretReference{Name: "ca"}
		}),
		&connectorsv1alpha1.Connector{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "open"}, Spec: connectorsv1alpha1.ConnectorSpec{ConnectorClassName: "any", Address: "https://a.example.com"}},
	}
}

var deployer = authenticationv1.UserInfo{Username: "system:serviceaccount:prod-apps:deployer", UID: "sa1"}

func token() *corev1.Secret {
	return makeSecret("login", connectorsv1alpha1.SecretTypeBearerToken, "token", password+"\n")
}

func TestIdentityOfAKubernetesTool(t *testing.T) {
	logins := map[string]struct {
		secret *corev1.Secret
		header string
		want   string
	}{
		"token":   {token(), "Authorization", "Bearer " + password},
		"basic":   {basic(), "Authorization", "Basic cm9ib3Q6czNjcjN0LXZhbHVl"},
		"headers": {makeSecret("login", connectorsv1alpha1.SecretTypeHeaders, "X-Token", password), "X-Token", password},
	}
	for name, tt := range logins {
		t.Run(name, func(t *testing.T) {
			api := newTool(t, deployer)
			w := newWorld(t, append(api.objects(), tt.secret)...)
			connector := w.reconcile()
			assert.Equal(t, metav1.ConditionTrue, ready(connector).Status, ready(connector).Message)
			assert.Equal(t, deployer.Username, connector.Status.Identity)
			assert.Equal(t, tt.want, api.seen.Get(tt.header))
		})
	}
	t.Run("a tool that does not answer", func(t *testing.T) {
		api := newTool(t, deployer)
		w := newWorld(t, append(api.objects(), token())...)
		w.reconcile()
		api.Close()
		connector := w.reconcile()
		assert.Equal(t, deployer.Username, connector.Status.Identity)
		assert.Equal(t, metav1.ConditionTrue, ready(connector).Status)
	})
}

func TestCredentialReachesGuards(t *testing.T) {
	rule := func(group, resource string, verbs ...string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	tests := map[string]struct {
		user      authenticationv1.UserInfo
		namespace string
		rule      authorizationv1.ResourceRule
		want      string // part of the message; empty: ready
	}{
		"harmless":                       {deployer, "prod", rule("", "configmaps", "get", "update"), ""},
		"our group":                      {deployer, "prod", rule("approval.alaudadevops.io", "approvalresponses", "create"), "create approvalresponses of approval.alaudadevops.io in namespace prod"},
		"our group, no Secrets there":    {deployer, "team-a", rule("connectors.alaudadevops.io", "connectors", "update"), "update connectors of connectors.alaudadevops.io in namespace team-a"},
		"authority":                      {deployer, "prod", rule("authority.alaudadevops.io", "checks", "decide"), "decide checks of authority.alaudadevops.io"},
		"everything":                     {deployer, "prod", rule("*", "*", "*"), "* * of approval.alaudadevops.io"},
		"secrets beside a connector's":   {deployer, "prod", rule("", "secrets", "list"), "reach secrets in namespace prod"},
		"secrets beside ours":            {deployer, "countersign-system", rule("", "secrets", "get"), "reach secrets in namespace countersign-system"},
		"secrets where none of ours lie": {deployer, "team-a", rule("", "secrets", "get"), ""},
		"pods":                           {deployer, "prod", rule("", "pods", "create"), "create pods"},
		"reading pods":                   {deployer, "prod", rule("", "pods", "get", "list"), ""},
		"pods where none of ours lie":    {deployer, "team-a", rule("", "pods", "create"), ""},
		"tokens":                         {deployer, "prod", rule("", "serviceaccounts/token", "create"), "create serviceaccounts/token"},
		"tokens by wildcard":             {deployer, "prod", rule("", "*/token", "create"), "create serviceaccounts/token"},
		"another cluster's account":      {authenticationv1.UserInfo{Username: deployer.Username, UID: "other"}, "prod", rule("*", "*", "*"), ""},
		"an unknown account":             {authenticationv1.UserInfo{Username: "system:serviceaccount:prod-apps:gone", UID: "sa1"}, "prod", rule("*", "*", "*"), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			api := newTool(t, tt.user)
			api.rules[tt.namespace] = []authorizationv1.ResourceRule{tt.rule}
			w := newWorld(t, append(api.objects(), token())...)
			connector := w.reconcile()
			assert.Equal(t, tt.user.Username, connector.Status.Identity)
			if tt.want == "" {
				assert.Equal(t, metav1.ConditionTrue, ready(connector).Status, ready(connector).Message)
				return
			}
			assert.Equal(t, approvalv1alpha1.ReasonCredentialReachesGuards, ready(connector).Reason)
			assert.Contains(t, ready(connector).Message, tt.want)
		})
	}
}
