package upstream

import (
	"net/http"
	"net/url"
	"strings"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/login"
	"github.com/AlaudaDevops/countersign/pkg/operation"
	"github.com/AlaudaDevops/countersign/pkg/proxy/route"
)

// Tool is a connector's tool as it can be reached now. It is immutable.
type Tool struct {
	class string

	targets    []route.Target
	caCert     []byte
	credential *login.Credential
	transport  *http.Transport
	// exchange is nil for everything but registries whose credential may have to be exchanged for a token.
	exchange *exchange
}

func (t *Tool) readAddresses(spec *connectorsv1alpha1.ConnectorSpec) error {
	t.targets = make([]route.Target, 0, 1+len(spec.AddressExtensions))
	if err := t.addAddress("", spec.Address); err != nil {
		return err
	}
	for _, e := range spec.AddressExtensions {
		if err := t.addAddress(e.Name, e.Address); err != nil {
			return err
		}
	}
	return nil
}

// addAddress checks again what the CRD's schema asks, because everything else rests on it.
func (t *Tool) addAddress(extension, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return notReady("an address of the connector is no plain http or https URL; tell the connector's owners", err)
	}
	t.targets = append(t.targets, route.Target{Extension: extension, URL: u})
	return nil
}

// Targets are all addresses of the connector, its own one first. The slice is shared and not to be changed.
func (t *Tool) Targets() []route.Target { return t.targets }

// Target is the address of an extension, or with an empty name the connector's own.
func (t *Tool) Target(extension string) (*url.URL, bool) {
	for i := range t.targets {
		if t.targets[i].Extension == extension {
			return t.targets[i].URL, true
		}
	}
	return nil, false
}

// Trip is the round tripper for one request, whose operations were allowed: it logs in and asks a registry for no
// more than they need. It sends to wherever the request's URL says, so that is made from a Target and the parsed path.
func (t *Tool) Trip(extension string, operations []operation.Operation) http.RoundTripper {
	return &trip{tool: t, extension: extension, operations: operations}
}

type trip struct {
	tool       *Tool
	extension  string
	operations []operation.Operation
}

// RoundTrip implements http.RoundTripper, but for one thing: it sets headers of the request, which is a copy made for
// this trip.
func (t *trip) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.send(req)
	if err != nil && req.Body != nil {
		_ = req.Body.Close()
	}
	return res, err
}

func (t *trip) send(req *http.Request) (*http.Response, error) {
	x := t.tool.exchange
	switch {
	case t.tool.isTokenService(req.URL):
		return nil, errTokenService
	case x != nil && t.extension == "":
		return x.roundTrip(req, t.operations)
	case x != nil && x.isOwn(req.URL):
		c, err := x.challenged(req.Context())
		if err != nil {
			return nil, err
		}
		if c.isTokenService(req.URL) {
			return nil, errTokenService
		}
	}
	t.tool.credential.Apply(req.Header)
	return t.tool.transport.RoundTrip(req)
}

// harborTokens is where Harbor hands out tokens for its registry.
const harborTokens = "/service/token"

// isTokenService knows the listed token services, and Harbor's own without being told by a challenge, by whatever address of
// the connector they are reached.
func (t *Tool) isTokenService(u *url.URL) bool {
	base := t.targets[0].URL
	harbors := t.class == operation.Harbor && strings.EqualFold(u.Host, base.Host) &&
		strings.TrimSuffix(u.Path, "/") == strings.TrimSuffix(base.Path, "/")+harborTokens
	return harbors || t.exchange != nil && t.exchange.isListed(u)
}

// exchangeFor gives registries with a basic credential, or none, their token exchange. It is kept as long as neither credential
// nor connections change.
func (p *Pool) exchangeFor(t *Tool, spec *connectorsv1alpha1.ConnectorSpec, former *Tool) *exchange {
	if class := spec.ConnectorClassName; class != operation.OCI && class != operation.Harbor {
		return nil
	}
	if _, _, basic := t.credential.Basic(); !basic && !t.credential.None() {
		return nil
	}
	if former != nil && former.exchange != nil && former.transport == t.transport && former.credential.Equal(t.credential) {
		return former.exchange
	}
	return newExchange(t, realms(spec), p.clock, p.options.TokenTimeout)
}
