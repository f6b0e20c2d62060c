package attribution

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/AlaudaDevops/countersign/pkg/directory/open"
	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
	"github.com/AlaudaDevops/countersign/pkg/directory/scim"
)

// service is a SCIM service that knows whom it is told to know, by user name.
type service struct {
	mu     sync.Mutex
	known  map[string]string
	away   bool
	hang   chan struct{}
	lookup map[string]int
}

func newService() *service {
	return &service{known: map[string]string{}, lookup: map[string]int{}}
}

// start serves until the process ends, and writes the configuration of the directory.
func (s *service) start(dir, config string) error {
	server := httptest.NewServer(s)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		return err
	}
	text, err := yaml.Marshal(open.Config{
		Type: "scim",
		SCIM: &scim.Config{Server: rest.Server{URL: server.URL, InsecurePlaintext: true}, BearerTokenFile: token},
		Cache: open.Cache{
			Negative: &metav1.Duration{Duration: time.Second}, Timeout: &metav1.Duration{Duration: 2 * time.Second}, Retries: ptr.To(0),
			RetryAfter: &metav1.Duration{Duration: time.Second}, Breaker: open.Breaker{Open: &metav1.Duration{Duration: time.Second}},
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(config, text, 0o600)
}

// ServeHTTP answers searches for one user by name.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	away, hang := s.state()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
			return
		}
	}
	var name string
	text, ok := strings.CutPrefix(r.URL.Query().Get("filter"), "userName eq ")
	if away || !ok || json.Unmarshal([]byte(text), &name) != nil {
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	}
	users := s.search(name)
	w.Header().Set("Content-Type", "application/scim+json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:ListResponse"}, "totalResults": len(users), "Resources": users,
	})
}

func (s *service) state() (away bool, hang chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away, s.hang
}

func (s *service) search(name string) []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookup[name]++
	shown, ok := s.known[name]
	if !ok {
		return []any{}
	}
	return []any{map[string]any{"id": "id-of-" + name, "userName": name, "displayName": shown, "active": true}}
}

func (s *service) knows(name, shown string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[name] = shown
}

// lookups is how often a name was searched for.
func (s *service) lookups(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookup[name]
}

func (s *service) goAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// fallSilent lets every search wait until the returned function is called.
func (s *service) fallSilent() (wake func()) {
	hang := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hang = hang
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hang = nil
		close(hang)
	})
}
