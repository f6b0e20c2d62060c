package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

const (
	// proxyTimeout bounds one question to the proxy.
	proxyTimeout = 30 * time.Second
	// maxAnswer bounds what is read of the proxy's answer, in bytes.
	maxAnswer = 16 << 20

	// The ConfigMap that tells everybody where the proxy is: data.proxyURL, data.ca (PEM).
	discoveryNamespace = "kube-public"
	discoveryName      = "countersign"
)

var (
	errNoProxy = fail(ExitError, "it is not known where the Countersign proxy is: set --proxy-url or PROXY_URL, or ask an administrator for the ConfigMap %s/%s",
		discoveryNamespace, discoveryName)
	errNoToken = fail(ExitError, "your kubeconfig has no token, and the proxy knows nothing else: log in with a token")
)

// proxyFlags say where the proxy is.
type proxyFlags struct{ url, ca string }

func (f *proxyFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "proxy-url", "", "URL of the Countersign proxy. Default: PROXY_URL, else what the cluster publishes.")
	cmd.Flags().StringVar(&f.ca, "proxy-ca", "", "File with the CA of the proxy's certificate. Default: PROXY_CA, else what the cluster publishes.")
}

// proxy is the Countersign proxy's own endpoints, asked as the kubeconfig's user.
type proxy struct {
	base *url.URL
	http *http.Client
}

// proxy finds the proxy. The error is errNoProxy where nobody says where it is.
func (p *program) proxy(ctx context.Context, c *cluster, flags proxyFlags) (*proxy, error) {
	address, ca, err := flags.find(ctx, c)
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || base.Scheme != "https" || base.Host == "" {
		return nil, fail(ExitError, "the proxy's address %s is no https URL, and your token is not sent any other way", words(address))
	}
	client, err := proxyClient(c.config, ca)
	if err != nil {
		return nil, err
	}
	return &proxy{base: base, http: client}, nil
}

func (f proxyFlags) find(ctx context.Context, c *cluster) (address string, ca []byte, err error) {
	address, file := orElse(f.url, os.Getenv("PROXY_URL")), orElse(f.ca, os.Getenv("PROXY_CA"))
	if file != "" {
		if ca, err = os.ReadFile(file); err != nil {
			return "", nil, fail(ExitError, "the CA of the proxy cannot be read: %s", sentence(err))
		}
	}
	if address != "" && (file != "" || f.url != "") {
		return address, ca, nil
	}
	published := &corev1.ConfigMap{}
	if err := c.Get(ctx, keyOf(discoveryNamespace, discoveryName), published); err != nil && !unreadable(err) {
		return "", nil, err
	}
	if len(ca) == 0 {
		ca = []byte(published.Data["ca"])
	}
	if address = orElse(address, published.Data["proxyURL"]); address == "" {
		return "", nil, errNoProxy
	}
	return address, ca, nil
}

// proxyClient sends the kubeconfig's token, however it is come by, and follows no redirect: the token is for the proxy.
func proxyClient(config *rest.Config, ca []byte) (*http.Client, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fail(ExitError, "the CA of the proxy holds no certificate in PEM: ask an administrator for the right one")
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = settings
	authenticated, err := withCredentials(config, tokenOnly{transport})
	if err != nil {
		return nil, err
	}
	return &http.Client{
		Transport: authenticated, Timeout: proxyTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// withCredentials leaves impersonation out: the proxy refuses it.
func withCredentials(config *rest.Config, next http.RoundTripper) (http.RoundTripper, error) {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{}
	return rest.HTTPWrappersForConfig(config, next)
}

// tokenOnly stops requests to which the kubeconfig's credentials added no token.
type tokenOnly struct{ next http.RoundTripper }

func (t tokenOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if bearer(r) == "" {
		return nil, errNoToken
	}
	return t.next.RoundTrip(r)
}

func bearer(r *http.Request) string {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return token
}

// get reads a JSON document and returns the HTTP status it came with.
func (x *proxy) get(ctx context.Context, path string, query url.Values, into any) (status int, err error) {
	address := *x.base
	address.Path += path
	address.RawQuery = query.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return 0, err
	}
	return x.send(r, into)
}

// send reads the JSON document that is answered, and returns the HTTP status it came with.
func (x *proxy) send(r *http.Request, into any) (status int, err error) {
	r.Header.Set("Accept", "application/json, application/problem+json")
	answer, err := x.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return 0, fail(ExitError, "the proxy at %s answers %s, and not in JSON: is --proxy-url right?", x.base.Host, answer.Status)
	}
	return answer.StatusCode, nil
}

// currentJTI is the id of the token that the kubeconfig gives now.
func currentJTI(ctx context.Context, config *rest.Config) (string, error) {
	catch := &tokenCatcher{}
	authenticated, err := withCredentials(config, catch)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://nowhere.invalid/", nil)
	if err != nil {
		return "", err
	}
	answer, err := authenticated.RoundTrip(r)
	if err == nil {
		_ = answer.Body.Close()
	} else if !errors.Is(err, errCaught) {
		return "", err
	}
	return jtiOf(catch.token)
}

var errCaught = errors.New("nothing is sent")

// tokenCatcher sees the token in place of a server.
type tokenCatcher struct{ token string }

func (t *tokenCatcher) RoundTrip(r *http.Request) (*http.Response, error) {
	t.token = bearer(r)
	return nil, errCaught
}

// jtiOf reads the id without verifying the token: the server does.
func jtiOf(token string) (string, error) {
	if token == "" {
		return "", errNoToken
	}
	var claims struct {
		JTI string `json:"jti"`
	}
	parts := strings.Split(token, ".")
	if len(parts) == 3 {
		if raw, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			// What is no JSON leaves the id empty.
			_ = json.Unmarshal(raw, &claims)
		}
	}
	if claims.JTI == "" {
		return "", fail(ExitError, "your token has no jti, so a grant cannot be narrowed to it: leave --token-jti out")
	}
	return claims.JTI, nil
}
