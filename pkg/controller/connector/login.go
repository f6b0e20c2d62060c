package connector

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

const keyToken = "token"

// lacking says what keeps the Secret from being a login, as the rest of a sentence that begins with the Secret; it is
// empty if nothing does. It names keys and never values.
func lacking(secret *corev1.Secret) string {
	switch secret.Type {
	case corev1.SecretTypeBasicAuth:
		return lackingBasic(secret)
	case connectorsv1alpha1.SecretTypeBearerToken:
		return lackingValue(secret, keyToken)
	case connectorsv1alpha1.SecretTypeHeaders:
		return lackingHeaders(secret)
	}
	return fmt.Sprintf("has the type %q; use %s, %s or %s", secret.Type,
		corev1.SecretTypeBasicAuth, connectorsv1alpha1.SecretTypeBearerToken, connectorsv1alpha1.SecretTypeHeaders)
}

// lackingBasic lets the user name be empty: tools that know tokens by themselves ignore it.
func lackingBasic(secret *corev1.Secret) string {
	if strings.Contains(value(secret, corev1.BasicAuthUsernameKey), ":") {
		return "has a colon under the key username, which basic authentication cannot carry; use another account"
	}
	return lackingValue(secret, corev1.BasicAuthPasswordKey)
}

func lackingValue(secret *corev1.Secret, key string) string {
	if value(secret, key) == "" {
		return fmt.Sprintf("of type %s lacks the key %s; add it", secret.Type, key)
	}
	if !httpguts.ValidHeaderFieldValue(value(secret, key)) {
		return fmt.Sprintf("holds under the key %s what no HTTP header can carry; set it again without line breaks", key)
	}
	return ""
}

func lackingHeaders(secret *corev1.Secret) string {
	if len(secret.Data) == 0 {
		return fmt.Sprintf("of type %s holds no header; add one, its name as the key", secret.Type)
	}
	for _, name := range slices.Sorted(maps.Keys(secret.Data)) {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Sprintf("holds the key %q, which is no header's name; rename it", name)
		}
		if lack := lackingValue(secret, name); lack != "" {
			return lack
		}
	}
	return ""
}

// value drops the line break that editors and shells leave at the end.
func value(secret *corev1.Secret, key string) string {
	return strings.TrimRight(string(secret.Data[key]), "\r\n")
}

// loginConfig is a client's configuration for the tool, with the connector's own credentials.
func (c *Controller) loginConfig(connector *connectorsv1alpha1.Connector, secret *corev1.Secret, ca []byte) *rest.Config {
	config := &rest.Config{
		Host: connector.Spec.Address, Timeout: c.options.Timeout,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
		// What only resembles an API server speaks JSON.
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
	}
	switch secret.Type {
	case corev1.SecretTypeBasicAuth:
		config.Username, config.Password = value(secret, corev1.BasicAuthUsernameKey), value(secret, corev1.BasicAuthPasswordKey)
	case connectorsv1alpha1.SecretTypeBearerToken:
		config.BearerToken = value(secret, keyToken)
	case connectorsv1alpha1.SecretTypeHeaders:
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return headerLogin{secret, next} })
	}
	return config
}

// headerLogin sets the headers of a Secret on every request.
type headerLogin struct {
	secret *corev1.Secret
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (h headerLogin) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for name := range h.secret.Data {
		req.Header.Set(name, value(h.secret, name))
	}
	return h.next.RoundTrip(req)
}
