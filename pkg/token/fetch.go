package token

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxDocumentBytes bounds a discovery document and a key set.
	maxDocumentBytes = 1 << 20
	// maxRedirects bounds how often the way to a document may turn.
	maxRedirects = 3

	discoveryPath = "/.well-known/openid-configuration"
	// keysPath is where the API server publishes the keys of service-account tokens (KEP-1393).
	keysPath = "/openid/v1/jwks"
)

// keySource reads the key set that an issuer publishes now.
type keySource func(ctx context.Context) ([]*key, error)

// discovery is the part of OpenID Connect Discovery 1.0 section 3 that matters for checking tokens.
type discovery struct {
	Issuer  string `json:"issuer"`
	KeysURL string `json:"jwks_uri"`
}

// keysAt reads the key set at a fixed place.
func keysAt(client *http.Client, address string) keySource {
	return func(ctx context.Context) ([]*key, error) {
		document, err := get(ctx, client, address)
		if err != nil {
			return nil, err
		}
		return parseKeys(document)
	}
}

// discoveredKeys reads the key set that the issuer's discovery document names. The document is read
// each time, because an issuer may move its keys.
func discoveredKeys(client *http.Client, issuer, discoveryURL string) keySource {
	if discoveryURL == "" {
		discoveryURL = strings.TrimSuffix(issuer, "/") + discoveryPath
	}
	return func(ctx context.Context) ([]*key, error) {
		found, err := discover(ctx, client, discoveryURL)
		if err != nil {
			return nil, err
		}
		if found.Issuer != issuer {
			return nil, fmt.Errorf("the discovery document at %s is that of issuer %s and not of %s", discoveryURL, quoted(found.Issuer), quoted(issuer))
		}
		if address, err := url.Parse(found.KeysURL); err != nil || address.Scheme != "https" {
			return nil, fmt.Errorf("the discovery document at %s names no https address for the keys", discoveryURL)
		}
		return keysAt(client, found.KeysURL)(ctx)
	}
}

func discover(ctx context.Context, client *http.Client, address string) (discovery, error) {
	var found discovery
	document, err := get(ctx, client, address)
	if err != nil {
		return found, err
	}
	if err := json.Unmarshal(document, &found); err != nil {
		return found, fmt.Errorf("the discovery document at %s is no JSON: %w", address, err)
	}
	return found, nil
}

// get reads one document of bounded size. No Accept header is sent: the API server answers 406 to one
// that does not name the exact type of its key set.
func get(ctx context.Context, client *http.Client, address string) (document []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s answered %s", address, response.Status)
	}
	document, err = io.ReadAll(io.LimitReader(response.Body, maxDocumentBytes+1))
	if err == nil && len(document) > maxDocumentBytes {
		err = fmt.Errorf("GET %s answered with more than %d bytes", address, maxDocumentBytes)
	}
	return document, err
}

// issuerClient talks to the issuer of people's tokens; without roots it trusts those of the host, and
// it uses the proxy of the environment, both as the API server does.
func issuerClient(roots *x509.CertPool, timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:   timeout,
			ResponseHeaderTimeout: timeout,
			IdleConnTimeout:       90 * time.Second,
			ForceAttemptHTTP2:     true,
		},
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			if request.URL.Scheme != "https" || len(via) > maxRedirects {
				return errors.New("the redirect leaves https or is one too many")
			}
			return nil
		},
	}
}
