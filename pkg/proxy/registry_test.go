package proxy

import (
	"io"
	"log"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/operation"
)

func requestFor(t testing.TB, method, path string) operation.Request {
	p, err := operation.Parse(path)
	require.NoError(t, err)
	return operation.Request{Method: method, Path: p}
}

// recorded is an in-memory registry that notes what it is asked.
type recorded struct {
	http.Handler
	mu   sync.Mutex
	asks []string
}

func (r *recorded) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.asks = append(r.asks, req.Method+" "+req.URL.Path+"?"+req.URL.RawQuery)
	r.mu.Unlock()
	if _, password, _ := req.BasicAuth(); password != toolPassword {
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.Handler.ServeHTTP(w, req)
}

func (f *fixture) registry() (*recorded, []remote.Option) {
	reg := &recorded{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	f.serve("harbor", "oci", reg.ServeHTTP)
	return reg, []remote.Option{
		remote.WithAuth(&authn.Basic{Username: "whoever", Password: aliceToken}), remote.WithTransport(f.server.Client().Transport),
	}
}

func (f *fixture) reference(t *testing.T, repository string) name.Reference {
	ref, err := name.ParseReference(strings.TrimPrefix(f.server.URL, "https://") + "/namespaces/prod/connectors/harbor/" + repository)
	require.NoError(t, err)
	return ref
}

func TestRegistryClientsPushAndPull(t *testing.T) {
	f := start(t)
	f.gate.decide = allowAll
	reg, options := f.registry()
	image, err := random.Image(2048, 3)
	require.NoError(t, err)
	require.NoError(t, remote.Write(f.reference(t, "team/app:1"), image, options...))
	pulled, err := remote.Image(f.reference(t, "team/app:1"), options...)
	require.NoError(t, err)
	want, err := image.Digest()
	require.NoError(t, err)
	got, err := pulled.Digest()
	require.NoError(t, err)
	assert.Equal(t, want, got)

	tags, err := remote.List(f.reference(t, "team/app:1").Context(), options...)
	require.NoError(t, err)
	assert.Equal(t, []string{"1"}, tags)
	for _, ask := range reg.asks {
		assert.NotContains(t, ask, "connectors", "the registry sees its own names only")
	}
	line := f.lineOf("PUT", "/v2/team/app/manifests/1")
	assert.Equal(t, want.String(), line["contentDigest"])
}

func TestAMountNamesItsSourceAsTheRegistryDoes(t *testing.T) {
	f := start(t)
	f.gate.decide = allowAll
	reg, _ := f.registry()
	mount := func(from string) string {
		f.do(sent{method: "POST", path: "/v2/namespaces/prod/connectors/harbor/app/blobs/uploads/?mount=sha256%3Aab&from=" + from})
		return reg.asks[len(reg.asks)-1]
	}
	assert.Equal(t, "POST /v2/app/blobs/uploads/?mount=sha256%3Aab&from=team%2Fbase", mount("namespaces%2Fprod%2Fconnectors%2Fharbor%2Fteam%2Fbase"))
	use := f.gate.lastUse()
	require.Len(t, use.Operations, 2)
	assert.Equal(t, "Write (POST /v2/app/blobs/uploads/)", use.Operations[0].Describe())
	assert.Equal(t, "Read (GET /v2/team/base/blobs/sha256:ab)", use.Operations[1].Describe(), "both are decided about")

	assert.Equal(t, "/v2/team/base/blobs/sha256:ab", f.lastLine(1)["source"])

	assert.Equal(t, "POST /v2/app/blobs/uploads/?", mount("namespaces%2Fprod%2Fconnectors%2Fother%2Fbase"), "another connector's blobs are uploaded instead")
	assert.Len(t, f.gate.lastUse().Operations, 1)
}

func TestRegistryClientsPrintTheRefusal(t *testing.T) {
	f := start(t)
	_, options := f.registry()
	image, err := random.Image(512, 1)
	require.NoError(t, err)
	err = remote.Write(f.reference(t, "app:1"), image, options...)
	assert.ErrorContains(t, err, "DENIED: Nobody has asked for this use: ask for an approval (NoRequest)")
	assert.ErrorContains(t, err, `kubectl countersign request connector/harbor -n prod --reason "..."`)
	assert.ErrorContains(t, err, "you are seen as alice")

	_, err = remote.Image(f.reference(t, "absent:1"), options...)
	assert.ErrorContains(t, err, "NAME_UNKNOWN", "reads reach the registry")

	_, err = remote.Image(f.reference(t, "app:1"), remote.WithTransport(f.server.Client().Transport))
	assert.ErrorContains(t, err, "UNAUTHORIZED: no token was sent")
}
