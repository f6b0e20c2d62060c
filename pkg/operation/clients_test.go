package operation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestClientSequences holds what real clients send, recorded from git 2.39, crane 0.21 and kubectl 1.37. A line is the
// expected classes, the request, and the protocol of an upgrade if there is one.
func TestClientSequences(t *testing.T) {
	const pod = "/api/v1/namespaces/default/pods/p"
	tests := map[string]struct {
		class string
		lines []string
	}{
		"git clone": {Git, []string{
			"Read: GET /team/app.git/info/refs?service=git-upload-pack",
			"Read: POST /team/app.git/git-upload-pack",
			"Read: POST /team/app.git/git-upload-pack",
		}},
		"git push": {Git, []string{
			"Write: GET /team/app.git/info/refs?service=git-receive-pack",
			"Write: POST /team/app.git/git-receive-pack",
		}},
		"git push with large files": {Git, []string{
			"Write: GET /team/app.git/info/refs?service=git-receive-pack",
			"Write: POST /team/app.git/info/lfs/locks/verify",
			"Write: POST /team/app.git/info/lfs/objects/batch",
			"Write: PUT /team/app.git/info/lfs/objects/ab12",
			"Write: POST /team/app.git/git-receive-pack",
		}},
		"crane push": {OCI, []string{
			"Read: GET /v2/",
			"Read: HEAD /v2/team/base/manifests/1",
			"Read: HEAD /v2/team/base/blobs/sha256:3f89",
			"Write: POST /v2/team/base/blobs/uploads/",
			"Write: PATCH /v2/team/base/blobs/uploads/1521147535225027014",
			"Write: PUT /v2/team/base/blobs/uploads/1521147535225027014?digest=sha256%3A3f89",
			"Write: PUT /v2/team/base/manifests/1",
		}},
		"crane pull": {OCI, []string{
			"Read: GET /v2/",
			"Read: GET /v2/team/base/manifests/1",
			"Read: GET /v2/team/base/blobs/sha256:7093",
		}},
		"crane copy with a mount": {OCI, []string{
			"Read: GET /v2/",
			"Read: GET /v2/team/base/manifests/1",
			"Read: HEAD /v2/team/app/manifests/1",
			"Read: HEAD /v2/team/app/blobs/sha256:92fe",
			"Write Read: POST /v2/team/app/blobs/uploads/?from=team%2Fbase&mount=sha256%3A92fe",
			"Write: PUT /v2/team/app/manifests/1",
		}},
		"crane tag, ls, catalog, delete": {OCI, []string{
			"Read: GET /v2/team/app/manifests/1",
			"Write: PUT /v2/team/app/manifests/2",
			"Read: GET /v2/team/app/tags/list?n=1000",
			"Read: GET /v2/_catalog?n=1000",
			"Write: DELETE /v2/team/app/manifests/1",
		}},
		"crane push to harbor": {Harbor, []string{
			"Read: GET /v2/",
			"Read: GET /service/token?scope=repository%3Ateam%2Fapp%3Apush%2Cpull&service=harbor-registry",
			"Write: POST /v2/team/app/blobs/uploads/",
			"Write: PUT /v2/team/app/manifests/1",
		}},
		"kubectl get, -w": {Kubernetes, []string{
			"Read: GET /api?timeout=32s",
			"Read: GET /apis?timeout=32s",
			"Read: GET /apis/apps/v1?timeout=32s",
			"Read: GET /api/v1/namespaces/default/pods?limit=500",
			"Read: GET /api/v1/namespaces/default/pods?allowWatchBookmarks=true&resourceVersion=7&watch=true",
		}},
		"kubectl get secrets": {Kubernetes, []string{
			"Write: GET /api/v1/namespaces/default/secrets?limit=500",
		}},
		"kubectl apply": {Kubernetes, []string{
			"Read: GET /openapi/v3?timeout=32s",
			"Read: GET /openapi/v3/api/v1?hash=AB12&timeout=32s",
			"Read: GET /api/v1/namespaces/default/configmaps/cm",
			"Write: PATCH /api/v1/namespaces/default/configmaps/cm?fieldManager=kubectl-client-side-apply&fieldValidation=Strict",
			"Write: POST /api/v1/namespaces/default/configmaps?fieldManager=kubectl-client-side-apply&fieldValidation=Strict",
		}},
		"kubectl apply, dry run by the server": {Kubernetes, []string{
			"Write: PATCH /api/v1/namespaces/default/configmaps/cm?dryRun=All&fieldManager=kubectl&force=false",
		}},
		"kubectl exec": {Kubernetes, []string{
			"Read: GET " + pod,
			"Write: GET " + pod + "/exec?command=ls&container=c&stderr=true&stdout=true websocket",
			"Write: POST " + pod + "/exec?command=ls&container=c&stderr=true&stdout=true SPDY/3.1",
		}},
		"kubectl cp": {Kubernetes, []string{
			"Write: GET " + pod + "/exec?command=test&command=-d&command=%2Ftmp%2Fx&container=c&stderr=true&stdout=true websocket",
		}},
		"kubectl attach": {Kubernetes, []string{
			"Write: GET " + pod + "/attach?container=c&stderr=true&stdout=true websocket",
			"Write: POST " + pod + "/attach?container=c&stderr=true&stdout=true SPDY/3.1",
		}},
		"kubectl logs -f": {Kubernetes, []string{
			"Read: GET " + pod,
			"Read: GET " + pod + "/log?container=c&follow=true",
			"Read: GET " + pod + "/log?container=c&follow=true websocket",
		}},
		"kubectl port-forward": {Kubernetes, []string{
			"Read: GET " + pod,
			"Write: GET " + pod + "/portforward websocket",
			"Write: POST " + pod + "/portforward SPDY/3.1",
		}},
		"kubectl scale": {Kubernetes, []string{
			"Read: GET /apis/apps/v1/namespaces/default/deployments/d",
			"Write: PATCH /apis/apps/v1/namespaces/default/deployments/d/scale",
		}},
		"kubectl auth can-i, whoami": {Kubernetes, []string{
			"Read: POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			"Read: POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
			"Read: POST /apis/authentication.k8s.io/v1/selfsubjectreviews",
		}},
		"kubectl create token, delete, version": {Kubernetes, []string{
			"Write: POST /api/v1/namespaces/default/serviceaccounts/sa/token",
			"Write: DELETE " + pod,
			"Read: GET /version?timeout=32s",
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			classifier := NewClassifier(tc.class)
			for _, line := range tc.lines {
				want, rest, found := strings.Cut(line, ": ")
				require.True(t, found)
				operations, err := classifier.Classify(clientRequest(t, rest))
				require.NoError(t, err, line)
				assert.Equal(t, want, classesOf(operations), line)
			}
		})
	}
}

func clientRequest(t *testing.T, line string) Request {
	t.Helper()
	fields := strings.Fields(line)
	r := request(t, fields[0]+" "+fields[1])
	r.Upgrade = len(fields) == 3
	return r
}

func classesOf(operations []Operation) string {
	classes := make([]string, 0, len(operations))
	for _, o := range operations {
		classes = append(classes, string(o.Class))
	}
	return strings.Join(classes, " ")
}
