package keycloak

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
	"github.com/AlaudaDevops/countersign/test/env/resttest"
)

const (
	realm        = "people & robots"
	clientSecret = "kc-secret"
)

// server behaves as the public documentation of Keycloak's Admin REST API says, for one realm: users are found by username,
// email or q, page by page; names and addresses are in lower case; users that the login may not view are left out.
type server struct {
	*resttest.Tokens
	users []map[string]any
	// blind logins may query users but view none.
	blind bool
	// endpoint is what the OpenID configuration says.
	endpoint string
	queries  []url.Values
	mu       sync.Mutex
}

// member is a user as an administrator sees them.
func member(id, username, email string, more map[string]any) map[string]any {
	u := map[string]any{
		"id": id, "username": username, "email": email, "enabled": true, "emailVerified": true,
		"firstName": "First", "lastName": "Last", "createdTimestamp": 1, "requiredActions": []string{},
	}
	for key, value := range more {
		u[key] = value
	}
	return u
}

func newServer(users ...map[string]any) *server {
	return &server{Tokens: &resttest.Tokens{ClientID: "countersign", Secret: clientSecret, Lifetime: 60}, users: users}
}

// start serves it, and returns a configuration that reaches it.
func (s *server) start(t *testing.T) Config {
	t.Helper()
	return serve(t, s, "/prefix")
}

func serve(t *testing.T, handler http.Handler, prefix string) Config {
	t.Helper()
	address, caFile := resttest.Serve(t, http.StripPrefix(prefix, handler))
	if s, ok := handler.(*server); ok && s.endpoint == "" {
		s.endpoint = address + prefix + "/token"
	}
	return Config{
		Server: rest.Server{URL: address + prefix, CAFile: caFile}, Realm: realm,
		ClientID: "countersign", ClientSecretFile: resttest.File(t, clientSecret),
	}
}

func (s *server) client(t *testing.T, change func(*Config)) *Client {
	t.Helper()
	c := s.start(t)
	change(&c)
	client, err := New(c)
	require.NoError(t, err)
	return client
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	escaped := url.PathEscape(realm)
	switch r.URL.EscapedPath() {
	case "/realms/" + escaped + "/.well-known/openid-configuration":
		write(w, map[string]any{"issuer": "https://sso.example.org", "token_endpoint": s.endpoint})
	case "/token":
		s.Tokens.ServeHTTP(w, r)
	case "/admin/realms/" + escaped + "/users":
		if s.Allow(w, r) {
			s.queries = append(s.queries, r.URL.Query())
			write(w, s.find(r.URL.Query()))
		}
	default:
		http.NotFound(w, r)
	}
}

func write(w http.ResponseWriter, document any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document)
}

func (s *server) find(query url.Values) []map[string]any {
	var found []map[string]any
	for _, u := range s.users {
		if matches(u, query) {
			found = append(found, u)
		}
	}
	first, _ := strconv.Atoi(query.Get("first"))
	most, _ := strconv.Atoi(query.Get("max"))
	page := []map[string]any{}
	for _, u := range found[min(first, len(found)):min(first+most, len(found))] {
		if !s.blind {
			page = append(page, represent(u, query.Get("briefRepresentation") == "true"))
		}
	}
	return page
}

func represent(u map[string]any, brief bool) map[string]any {
	shown := map[string]any{}
	for key, value := range u {
		if !brief || key != "attributes" {
			shown[key] = value
		}
	}
	return shown
}

func matches(u map[string]any, query url.Values) bool {
	for _, field := range []string{"username", "email"} {
		if query.Has(field) && !strings.EqualFold(u[field].(string), query.Get(field)) {
			return false
		}
	}
	if !query.Has("q") {
		return true
	}
	key, value := parse(query.Get("q"))
	attributes, _ := u["attributes"].(map[string][]string)
	for _, held := range attributes[key] {
		if strings.EqualFold(held, value) {
			return true
		}
	}
	return false
}

// parse reads one key:value as Keycloak does: a quoted value may hold blanks, \" is a quotation mark, \\ is dropped.
func parse(q string) (key, value string) {
	key, rest, _ := strings.Cut(q, ":")
	quoted := strings.HasPrefix(rest, `"`)
	rest = strings.TrimPrefix(rest, `"`)
	var out strings.Builder
	for i := 0; i < len(rest); i++ {
		switch {
		case strings.HasPrefix(rest[i:], `\"`):
			out.WriteByte('"')
			i++
		case strings.HasPrefix(rest[i:], `\\`):
			i++
		case rest[i] == '"' && quoted, rest[i] == ' ' && !quoted:
			return key, out.String()
		default:
			out.WriteByte(rest[i])
		}
	}
	return key, out.String()
}
