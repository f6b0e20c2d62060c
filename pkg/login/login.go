// Package login reads what a connector's Secret logs in to its tool with. The proxy uses it, and the controller tells
// beforehand what would keep the proxy from it.
package login

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	corev1 "k8s.io/api/core/v1"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

const (
	keyToken = "token"
	hidden   = "(credential hidden)"
)

// Credential logs in to a tool. Whatever prints it, prints a placeholder. The zero Credential is a tool without login.
type Credential struct {
	// headers are set on every request; the values are shared and not to be changed.
	headers map[string][]string
	// username and password are set for basic authentication only, which a registry may want exchanged for a token.
	username, password string
}

// String hides the credential.
func (Credential) String() string { return hidden }

// GoString hides the credential.
func (Credential) GoString() string { return hidden }

// MarshalLog hides the credential.
func (Credential) MarshalLog() any { return hidden }

// MarshalText hides the credential.
func (Credential) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// None tells that there is nothing to log in with.
func (c *Credential) None() bool { return len(c.headers) == 0 }

// Basic returns user name and password where the Secret holds these.
func (c *Credential) Basic() (username, password string, ok bool) {
	return c.username, c.password, c.password != ""
}

// Apply sets the headers that log in.
func (c *Credential) Apply(h http.Header) {
	for name, values := range c.headers {
		h[name] = values
	}
}

// Equal compares what the credentials log in with.
func (c *Credential) Equal(other *Credential) bool {
	return c.username == other.username && c.password == other.password &&
		maps.EqualFunc(c.headers, other.headers, slices.Equal[[]string])
}

// Read takes the Secret's type at its word; a nil Secret is a tool without login. The error is the rest of a sentence that
// begins with the Secret, and says what to do; it names keys and never values.
func Read(secret *corev1.Secret) (*Credential, error) {
	if secret == nil {
		return &Credential{}, nil
	}
	switch secret.Type {
	case corev1.SecretTypeBasicAuth:
		return readBasic(secret)
	case connectorsv1alpha1.SecretTypeBearerToken:
		return readToken(secret)
	case connectorsv1alpha1.SecretTypeHeaders:
		return readHeaders(secret)
	}
	return nil, fmt.Errorf("has the type %q; use %s, %s or %s", secret.Type,
		corev1.SecretTypeBasicAuth, connectorsv1alpha1.SecretTypeBearerToken, connectorsv1alpha1.SecretTypeHeaders)
}

// readBasic lets the user name be empty: tools that know tokens by themselves ignore it.
func readBasic(secret *corev1.Secret) (*Credential, error) {
	username := text(secret, corev1.BasicAuthUsernameKey)
	if strings.Contains(username, ":") {
		return nil, errors.New("has a colon under the key username, which basic authentication cannot carry; use another account")
	}
	password, err := value(secret, corev1.BasicAuthPasswordKey)
	if err != nil {
		return nil, err
	}
	header := "Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
	return &Credential{headers: map[string][]string{"Authorization": {header}}, username: username, password: password}, nil
}

func readToken(secret *corev1.Secret) (*Credential, error) {
	token, err := value(secret, keyToken)
	if err != nil {
		return nil, err
	}
	return &Credential{headers: map[string][]string{"Authorization": {"Bearer " + token}}}, nil
}

func readHeaders(secret *corev1.Secret) (*Credential, error) {
	if len(secret.Data) == 0 {
		return nil, fmt.Errorf("of type %s holds no header; add one, its name as the key", secret.Type)
	}
	c := &Credential{headers: make(map[string][]string, len(secret.Data))}
	for _, name := range slices.Sorted(maps.Keys(secret.Data)) {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if !httpguts.ValidHeaderFieldName(name) || framing[canonical] {
			return nil, fmt.Errorf("holds the key %q, which is no header's name that can be set; rename it", name)
		}
		header, err := value(secret, name)
		if err != nil {
			return nil, err
		}
		c.headers[canonical] = []string{header}
	}
	return c, nil
}

// framing headers decide where a message ends or goes; a Secret must not set them.
var framing = map[string]bool{
	"Connection": true, "Content-Length": true, "Expect": true, "Host": true, "Keep-Alive": true, "Proxy-Connection": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// value is what a key must hold for a header to carry it.
func value(secret *corev1.Secret, key string) (string, error) {
	v := text(secret, key)
	if v == "" {
		return "", fmt.Errorf("of type %s lacks the key %s; add it", secret.Type, key)
	}
	if !httpguts.ValidHeaderFieldValue(v) {
		return "", fmt.Errorf("holds under the key %s what no HTTP header can carry; set it again without line breaks", key)
	}
	return v, nil
}

// text drops the line break that editors and shells leave at the end of a value.
func text(secret *corev1.Secret, key string) string {
	return strings.TrimRight(string(secret.Data[key]), "\r\n")
}
