package releases

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

const ssoToken = "not-a-secret"

// people is a SCIM service: everybody is known at first, unless he left.
type people struct {
	server *httptest.Server

	mu    sync.Mutex
	left  map[string]bool
	away  map[string]bool
	asked map[string]int
}

func newPeople() *people {
	p := &people{left: map[string]bool{}, away: map[string]bool{}, asked: map[string]int{}}
	p.server = httptest.NewServer(p)
	return p
}

// config is the controller's configuration of the directory.
func (p *people) config(tokenFile string) []byte {
	return fmt.Appendf(nil, `
type: scim
scim: {url: %q, insecurePlaintext: true, bearerTokenFile: %q}
cache: {retries: 0, retryAfter: 1s, breaker: {failures: 1000}}
`, p.server.URL, tokenFile)
}

// ServeHTTP answers the one search that the directory makes (RFC 7644 section 3.4.2).
func (p *people) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var name string
	if err := json.Unmarshal([]byte(strings.TrimPrefix(r.URL.Query().Get("filter"), "userName eq ")), &name); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[name]++
	if p.away[name] {
		http.Error(w, "down for maintenance", http.StatusServiceUnavailable)
		return
	}
	users := []any{}
	if !p.left[name] {
		users = append(users, map[string]any{
			"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "id": "id-" + name, "userName": name, "active": true, "displayName": "The " + name,
		})
	}
	w.Header().Set("Content-Type", "application/scim+json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:ListResponse"}, "totalResults": len(users), "startIndex": 1, "itemsPerPage": len(users), "Resources": users,
	})
}

func (p *people) leaves(name string) { p.set(p.left, name, true) }

// isAway lets the service fail for this name only, so that tests do not disturb each other.
func (p *people) isAway(name string, away bool) { p.set(p.away, name, away) }

func (p *people) set(which map[string]bool, name string, value bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	which[name] = value
}

// questions is how often somebody was asked for.
func (p *people) questions(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[name]
}

func isReady(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
