package connector

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/login"
)

// loginConfig is a client's configuration for the tool, with the connector's own credentials.
func (c *Controller) loginConfig(connector *connectorsv1alpha1.Connector, credential *login.Credential, ca []byte) *rest.Config {
	config := &rest.Config{
		Host: connector.Spec.Address, Timeout: c.options.Timeout,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
		// What only resembles an API server speaks JSON.
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{credential, next} })
	return config
}

// transport logs in on every request, exactly as the proxy does.
type transport struct {
	credential *login.Credential
	next       http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	t.credential.Apply(req.Header)
	return t.next.RoundTrip(req)
}
