package upstream

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
	corev1 "k8s.io/api/core/v1"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

const (
	keyToken  = "token"
	keyCACert = "ca.crt"
	hidden    = "(credential hidden)"
)

// credential is what the proxy logs in to a tool with. Whatever prints it, prints a placeholder.
type credential struct {
	// headers are set on every request; the values are shared and not to be changed.
	headers map[string][]string
	// username and password are set for basic authentication only, which a registry may want exchanged for a token.
	username, password string
}

// String hides the credential.
func (credential) String() string { return hidden }

// GoString hides the credential.
func (credential) GoString() string { return hidden }

// MarshalLog hides the credential from logr.
func (credential) MarshalLog() any { return hidden }

// MarshalText hides the credential from JSON and YAML.
func (credential) MarshalText() ([]byte, error) { return []byte(hidden), nil }

func (c *credential) apply(h http.Header) {
	for name, values := range c.headers {
		h[name] = values
	}
}

// readCredential takes the Secret's type at its word; a nil Secret is a tool without login. Its error names keys, never
// values.
func readCredential(secret *corev1.Secret) (*credential, error) {
	if secret == nil {
		return &credential{}, nil
	}
	switch secret.Type {
	case corev1.SecretTypeBasicAuth:
		return readBasic(secret)
	case connectorsv1alpha1.SecretTypeBearerToken:
		return readToken(secret)
	case connectorsv1alpha1.SecretTypeHeaders:
		return readHeaders(secret)
	}
	return nil, fmt.Errorf("its type is none of %s, %s and %s", corev1.SecretTypeBasicAuth, connectorsv1alpha1.SecretTypeBearerToken, connectorsv1alpha1.SecretTypeHeaders)
}

func readBasic(secret *corev1.Secret) (*credential, error) {
	username, password := text(secret, corev1.BasicAuthUsernameKey), text(secret, corev1.BasicAuthPasswordKey)
	if password == "" {
		return nil, fmt.Errorf("its key %q is missing or empty", corev1.BasicAuthPasswordKey)
	}
	if strings.Contains(username, ":") {
		return nil, fmt.Errorf("its key %q has a colon, which basic authentication cannot carry", corev1.BasicAuthUsernameKey)
	}
	value := "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
	return &credential{headers: map[string][]string{"Authorization": {value}}, username: username, password: password}, nil
}

func readToken(secret *corev1.Secret) (*credential, error) {
	token := text(secret, keyToken)
	if token == "" || !httpguts.ValidHeaderFieldValue(token) {
		return nil, fmt.Errorf("its key %q is missing, empty or no header value", keyToken)
	}
	return &credential{headers: map[string][]string{"Authorization": {"Bearer " + token}}}, nil
}

func readHeaders(secret *corev1.Secret) (*credential, error) {
	c := &credential{headers: make(map[string][]string, len(secret.Data))}
	for name := range secret.Data {
		value := text(secret, name)
		if !httpguts.ValidHeaderFieldName(name) || framing[textproto.CanonicalMIMEHeaderKey(name)] {
			return nil, fmt.Errorf("its key %q is no header that can be set", name)
		}
		if value == "" || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("the value of its key %q is empty or no header value", name)
		}
		c.headers[textproto.CanonicalMIMEHeaderKey(name)] = []string{value}
	}
	if len(c.headers) == 0 {
		return nil, fmt.Errorf("it holds no header")
	}
	return c, nil
}

// framing headers decide where a message ends or goes; a Secret must not set them.
var framing = map[string]bool{
	"Connection": true, "Content-Length": true, "Expect": true, "Host": true, "Keep-Alive": true, "Proxy-Connection": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// text drops the line break that editors and shells leave at the end of a value.
func text(secret *corev1.Secret, key string) string {
	return strings.TrimRight(string(secret.Data[key]), "\r\n")
}
