package env

import (
	"crypto/tls"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRegistry(t *testing.T) {
	registry, err := cluster.StartRegistry(t.Context(), filepath.Join(t.TempDir(), "images"), "robot", "secret")
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: cluster.CA().Pool()}}
	t.Cleanup(transport.CloseIdleConnections)

	cases := map[string]struct {
		user, password string
		want           int
	}{
		"without credentials": {want: http.StatusUnauthorized},
		"a wrong password":    {user: "robot", password: "guess", want: http.StatusUnauthorized},
		"the right password":  {user: "robot", password: "secret", want: http.StatusOK},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+registry.Address+"/v2/", nil)
			require.NoError(t, err)
			if tc.user != "" {
				request.SetBasicAuth(tc.user, tc.password)
			}
			response, err := transport.RoundTrip(request)
			require.NoError(t, err)
			defer func() { _ = response.Body.Close() }()
			assert.Equal(t, tc.want, response.StatusCode)
		})
	}

	image, err := random.Image(1024, 2)
	require.NoError(t, err)
	reference := registry.Address + "/team/app:1"
	robot := crane.WithAuth(&authn.Basic{Username: "robot", Password: "secret"})
	require.Error(t, crane.Push(image, reference, crane.WithTransport(transport)))
	require.NoError(t, crane.Push(image, reference, robot, crane.WithTransport(transport)))
	want, err := image.Digest()
	require.NoError(t, err)
	got, err := crane.Digest(reference, robot, crane.WithTransport(transport))
	require.NoError(t, err)
	assert.Equal(t, want.String(), got)

	assert.NotContains(t, tail(cluster.layout.log("registry-images")), "secret")
}

func TestRegistryRefusesALongPassword(t *testing.T) {
	_, err := cluster.StartRegistry(t.Context(), filepath.Join(t.TempDir(), "long"), "robot", strings.Repeat("x", 73))
	assert.ErrorContains(t, err, "at most 72 bytes")
}
