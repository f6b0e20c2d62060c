package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// endlessTool is a tool whose answers end only with the connection. A body is read to its end before the answer begins.
func (s *stage) endlessTool() {
	s.Helper()
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	s.Cleanup(tool.Close)
	s.patchConnector(`{"spec":{"address":"` + tool.URL + `"}}`)
}

func (s *stage) patchConnector(patch string) {
	s.Helper()
	connector := &connectorsv1alpha1.Connector{ObjectMeta: metav1.ObjectMeta{Namespace: s.prod, Name: connectorName}}
	require.NoError(s, s.admin.Patch(s.ctx, connector, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// write is a write that does not end by itself.
func (s *stage) write(token string, body io.Reader) *http.Request {
	s.Helper()
	url := plane.values["PROXY_URL"] + "/namespaces/" + s.prod + "/connectors/" + connectorName + "/app"
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPut, url, body)
	require.NoError(s, err)
	req.Header.Set("Authorization", "Bearer "+token)
	return req
}

// endings are the ways in which a permission ends while it is used, with the reason that is told afterwards.
var endings = map[string]struct {
	end    func(s *stage, request *approvalv1alpha1.ResourceCheckRequest)
	reason string
}{
	"revoked": {func(s *stage, request *approvalv1alpha1.ResourceCheckRequest) {
		require.NoError(s, s.revoke(plane.as(s.T, "developer"), request, "done"))
	}, approvalv1alpha1.ReasonRevoked},
	"an approver takes it back": {func(s *stage, request *approvalv1alpha1.ResourceCheckRequest) {
		require.NoError(s, s.answer("owner1", request, "owners", approvalv1alpha1.DecisionRevoke))
	}, approvalv1alpha1.ReasonRevoked},
	"the rule is edited": {func(s *stage, _ *approvalv1alpha1.ResourceCheckRequest) {
		s.editRule("owners", func(spec *approvalv1alpha1.ResourceCheckRuleSpec) { spec.CheckTemplate.Spec.Raw = []byte(people(2)) })
	}, approvalv1alpha1.ReasonRulesChanged},
	"the connector is edited": {func(s *stage, _ *approvalv1alpha1.ResourceCheckRequest) {
		s.patchConnector(`{"spec":{"contextScope":"Pod"}}`)
	}, approvalv1alpha1.ReasonObjectChanged},
	"the right is taken away": {func(s *stage, _ *approvalv1alpha1.ResourceCheckRequest) {
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.prod, Name: "countersign-connector-user"}}
		require.NoError(s, s.admin.Delete(s.ctx, binding))
	}, approvalv1alpha1.ReasonConnectorUnknown},
	"the time is over": {func(*stage, *approvalv1alpha1.ResourceCheckRequest) {}, approvalv1alpha1.ReasonExpired},
}

func TestS13_AStreamEndsWithItsPermission(t *testing.T) {
	for name, test := range endings {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			request := s.granted(test.reason)
			res := s.stream()
			defer func() { _ = res.Body.Close() }()
			test.end(s, request)
			rest, err := io.ReadAll(res.Body)
			require.Error(t, err, "the caller sees that it was not the end")
			assert.Empty(t, rest)
			s.refused(plane.token(t, "developer"), http.MethodPut, "/app", test.reason)
		})
	}
}

// stream is an answer that has begun. The proxy sees a grant a moment after everybody else.
func (s *stage) stream() *http.Response {
	s.Helper()
	var res *http.Response
	s.eventually("the proxy lets the stream begin", func() (err error) {
		if res, err = httpClient(s.T).Do(s.write(plane.token(s.T, "developer"), http.NoBody)); err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			defer func() { _ = res.Body.Close() }()
			return fmt.Errorf("it answers %s", res.Status)
		}
		_, err = io.ReadFull(res.Body, make([]byte, len("first")))
		return err
	})
	return res
}

type result struct {
	*http.Response
	err error
}

func TestS13_AnUploadEndsWithItsPermission(t *testing.T) {
	for name, test := range endings {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			request := s.granted(test.reason)
			body, fill := io.Pipe()
			defer func() { _ = fill.Close() }()
			client, upload, answered := httpClient(t), s.write(plane.token(t, "developer"), body), make(chan result, 1)
			go func() {
				res, err := client.Do(upload)
				answered <- result{res, err}
			}()
			_, err := fill.Write([]byte("the first part"))
			require.NoError(t, err)
			test.end(s, request)
			got := <-answered
			require.NoError(t, got.err)
			res := got.Response
			defer func() { _ = res.Body.Close() }()
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			assert.Contains(t, []int{http.StatusForbidden, http.StatusNotFound}, res.StatusCode, "%s", text)
		})
	}
}

// granted is an approved request of the developer for a tool without an end. It lasts long, unless its end is what is
// waited for.
func (s *stage) granted(reason string) *approvalv1alpha1.ResourceCheckRequest {
	s.Helper()
	s.endlessTool()
	s.rule("owners", "ApprovalRequest", people(1))
	duration := time.Hour
	if reason == approvalv1alpha1.ReasonExpired {
		duration = 10 * time.Second
	}
	request := s.mustAsk(plane.as(s.T, "developer"), func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.TimeRange = &approvalv1alpha1.TimeRange{Duration: &metav1.Duration{Duration: duration}}
	})
	s.approve(request, "owners", 1)
	s.reaches(request, approvalv1alpha1.ReasonAllChecksApproved)
	return request
}

func TestS10_ATokenDiesWithItsPodAndItsServiceAccount(t *testing.T) {
	for name, kill := range map[string]func(s *stage, pod *corev1.Pod){
		"the pod is deleted": func(s *stage, pod *corev1.Pod) {
			require.NoError(s, s.admin.Delete(s.ctx, pod, client.GracePeriodSeconds(0)))
		},
		"the service account is made anew": func(s *stage, _ *corev1.Pod) {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.team, Name: "pipeline"}}
			require.NoError(s, s.admin.Delete(s.ctx, account))
			s.create(&corev1.ServiceAccount{ObjectMeta: account.ObjectMeta})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.rule("owners", "ApprovalRequest", people(1))
			_, pods := s.job(plane.as(t, "developer"), "deploy", 1)
			token := s.proxyToken(&pods[0])
			s.approve(s.mustAsk(s.inPod(&pods[0])), "owners", 1)
			s.allowed(token, http.MethodPut, "/app")
			kill(s, &pods[0])
			s.refused(token, http.MethodPut, "/app", approvalv1alpha1.ReasonUnauthenticated, "no longer valid")
			s.refused(token, http.MethodGet, "/app", approvalv1alpha1.ReasonUnauthenticated)
			for _, path := range []string{"/-/inbox", "/-/explain?user=alice&namespace=" + s.prod + "&connector=" + connectorName} {
				assert.Equal(t, approvalv1alpha1.ReasonUnauthenticated, s.own(token, path).reason, path)
			}
		})
	}
}

// own asks the proxy itself.
func (s *stage) own(token, path string) outcome {
	s.Helper()
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, plane.values["PROXY_URL"]+path, http.NoBody)
	require.NoError(s, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := httpClient(s).Do(req)
	require.NoError(s, err)
	defer func() { _ = res.Body.Close() }()
	return outcome{status: res.StatusCode, reason: res.Header.Get("Countersign-Reason")}
}
