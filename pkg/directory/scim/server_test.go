package scim

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
	"github.com/AlaudaDevops/countersign/test/env/resttest"
)

const (
	token        = "the-bearer-token"
	clientSecret = "scim-secret"
)

// server behaves as RFC 7644 says of searches with one comparison: pages begin at 1, may be shorter than asked for, and
// errors are messages of their own type.
type server struct {
	*resttest.Tokens
	users []map[string]any
	// most is how many users it puts on a page, whatever is asked for; zero is no bound.
	most    int
	queries []url.Values
	accepts []string
}

func newServer(users ...map[string]any) *server {
	return &server{Tokens: &resttest.Tokens{ClientID: "countersign", Secret: clientSecret, Lifetime: 60}, users: users}
}

// member is a user resource (RFC 7643 section 8.2).
func member(id, userName string, more map[string]any) map[string]any {
	u := map[string]any{
		"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"},
		"id":      id, "userName": userName, "active": true, "meta": map[string]any{"resourceType": "User"},
	}
	for key, value := range more {
		if value == nil {
			delete(u, key)
			continue
		}
		u[key] = value
	}
	return u
}

func serve(t *testing.T, handler http.Handler) Config {
	t.Helper()
	address, caFile := resttest.Serve(t, handler)
	return Config{Server: rest.Server{URL: address + "/scim/v2", CAFile: caFile}, BearerTokenFile: resttest.File(t, token+"\n")}
}

func (s *server) client(t *testing.T, change func(*Config)) *Client {
	t.Helper()
	c := serve(t, s)
	change(&c)
	client, err := New(c)
	require.NoError(t, err)
	return client
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/token":
		s.Tokens.ServeHTTP(w, r)
	case r.URL.Path != "/scim/v2/Users":
		http.NotFound(w, r)
	case r.Header.Get("Authorization") == "Bearer "+token || s.Allow(w, r):
		s.queries, s.accepts = append(s.queries, r.URL.Query()), append(s.accepts, r.Header.Get("Accept"))
		s.search(w, r.URL.Query())
	}
}

func write(w http.ResponseWriter, status int, document map[string]any) {
	w.Header().Set("Content-Type", "application/scim+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document)
}

func (s *server) search(w http.ResponseWriter, query url.Values) {
	attribute, operand, _ := strings.Cut(query.Get("filter"), " eq ")
	var value string
	if err := json.Unmarshal([]byte(operand), &value); err != nil {
		write(w, http.StatusBadRequest, map[string]any{"schemas": []string{errorSchema}, "scimType": "invalidFilter", "detail": operand, "status": "400"})
		return
	}
	found := []map[string]any{}
	for _, u := range s.users {
		if matches(u, attribute, value) {
			found = append(found, u)
		}
	}
	start, _ := strconv.Atoi(query.Get("startIndex"))
	count, _ := strconv.Atoi(query.Get("count"))
	if s.most > 0 {
		count = min(count, s.most)
	}
	page := found[min(start-1, len(found)):min(start-1+count, len(found))]
	write(w, http.StatusOK, map[string]any{
		"schemas": []string{listSchema}, "totalResults": len(found), "startIndex": start, "itemsPerPage": len(page), "Resources": page,
	})
}

func matches(u map[string]any, attribute, value string) bool {
	switch attribute {
	case "userName":
		return strings.EqualFold(u["userName"].(string), value)
	case "externalId":
		return u["externalId"] == value
	}
	emails, _ := u["emails"].([]map[string]any)
	for _, email := range emails {
		if strings.EqualFold(email["value"].(string), value) {
			return true
		}
	}
	return false
}
