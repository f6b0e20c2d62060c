package token

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

func TestClusterFor(t *testing.T) {
	cases := map[string]struct {
		issuers []string
		want    []string
	}{
		"asked for":  {nil, []string{clusterIssuer}},
		"configured": {[]string{"https://a", "https://b"}, []string{"https://a", "https://b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFakeIssuer(t, publish("one", rsaOne()))
			f.name = clusterIssuer
			config := &rest.Config{Host: f.URL, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(f.ca())}}
			c, err := ClusterFor(context.Background(), config, tc.issuers, []string{ourAudience})
			require.NoError(t, err)
			assert.Equal(t, tc.want, c.Issuers)
			v, err := New(c, nil, Options{Clock: newBench(t).clock})
			require.NoError(t, err)
			accepted(t, v, makeServiceAccountToken().claim("iss", tc.want[0]).sign())
		})
	}
}

func TestClusterForFollowsNoRedirect(t *testing.T) {
	elsewhere := newFakeIssuer(t)
	f := newFakeIssuer(t)
	f.Config.Handler = http.RedirectHandler(elsewhere.URL+discoveryPath, http.StatusFound)
	config := &rest.Config{Host: f.URL, BearerToken: "ours", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	_, err := ClusterFor(context.Background(), config, nil, []string{ourAudience})
	assert.ErrorContains(t, err, "302")
}

func TestClusterForUnreadableDiscovery(t *testing.T) {
	f := newFakeIssuer(t)
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode([]int{1}) })
	config := &rest.Config{Host: f.URL, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(f.ca())}}
	_, err := ClusterFor(context.Background(), config, nil, []string{ourAudience})
	assert.ErrorContains(t, err, "is no JSON")
}
