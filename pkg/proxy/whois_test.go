package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// people is a directory of one person.
type people struct{}

var askedAt = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func (people) Lookup(_ context.Context, name string) (directory.Answer, error) {
	switch name {
	case "wanda":
		return directory.Answer{At: askedAt, Person: directory.Person{UID: "u-1", DisplayName: "Wanda \x1b[2J", Email: "wanda@example.com"}}, nil
	case "slow":
		return directory.Answer{}, &directory.UnavailableError{Why: "the directory did not answer within 5s"}
	}
	return directory.Answer{}, &directory.UnknownError{Why: "nobody has this name"}
}

// reviews keeps what was asked.
type reviews struct {
	attrs []authz.ResourceAttributes
	err   error
}

func (r *reviews) Allowed(_ context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (bool, string, error) {
	r.attrs = append(r.attrs, attrs)
	return user.Username == "alice", "", r.err
}

func TestWhois(t *testing.T) {
	asked := &reviews{}
	f := start(t, func(o *Options) { o.People, o.Authorizer = people{}, asked })
	ask := func(bearer, body string) answer {
		return f.do(sent{method: http.MethodPost, path: "/-/whois", bearer: bearer, body: strings.NewReader(body)})
	}
	t.Run("answers in the order of the question", func(t *testing.T) {
		got := ask("", `{"names": ["slow", "wanda", "left@example.com", "wanda"]}`)
		require.Equal(t, http.StatusOK, got.StatusCode, got.body)
		assert.Equal(t, "no-store", got.Header.Get("Cache-Control"))
		var who Whois
		require.NoError(t, json.Unmarshal([]byte(got.body), &who))
		wanda := WhoisPerson{Name: "wanda", State: WhoisKnown, UID: "u-1", DisplayName: "Wanda \x1b[2J", Email: "wanda@example.com", At: &askedAt}
		assert.Equal(t, []WhoisPerson{
			{Name: "slow", State: WhoisUnavailable, Why: "the directory did not answer within 5s"}, wanda,
			{Name: "left@example.com", State: WhoisUnknown, Why: "nobody has this name"}, wanda,
		}, who.People)
		assert.Equal(t, []authz.ResourceAttributes{{Group: "authority.alaudadevops.io", Resource: "people", Verb: "whois"}}, asked.attrs,
			"without a namespace, so that no Role conveys it")
	})
	t.Run("nobody asked about", func(t *testing.T) {
		assert.JSONEq(t, `{"people": []}`, ask("", `{}`).body)
	})
	t.Run("not without the right", func(t *testing.T) {
		no := ask("nobody-token-0123456789", `{"names": ["wanda"]}`)
		refused(t, no, http.StatusForbidden, "NotPermitted")
		assert.Contains(t, no.body, "countersign-whois")
		refused(t, ask("none", `{}`), http.StatusUnauthorized, "Unauthenticated")
		refused(t, ask("orphan-token-0123456789", `{}`), http.StatusUnauthorized, "Unauthenticated")
	})
	t.Run("not garbled", func(t *testing.T) {
		many, err := json.Marshal(WhoisQuestion{Names: make([]string, MaxWhois+1)})
		require.NoError(t, err)
		for _, body := range []string{"", "wanda", `{"names": "wanda"}`, string(many), `{"names": ["` + strings.Repeat("x", maxWhoisBody) + `"]}`} {
			refused(t, ask("", body), http.StatusBadRequest, "InvalidRequest")
		}
		refused(t, f.get("/-/whois?names=wanda"), http.StatusBadRequest, "InvalidRequest")
	})
	t.Run("while rights cannot be told", func(t *testing.T) {
		asked.err = errors.New("away")
		refused(t, ask("", `{"names": ["wanda"]}`), http.StatusServiceUnavailable, "NotReady")
	})
}

func TestWhoisWithoutADirectory(t *testing.T) {
	got := start(t).do(sent{method: http.MethodPost, path: "/-/whois", body: strings.NewReader(`{"names": ["wanda"]}`)})
	assert.JSONEq(t, `{"people": [{"name": "wanda", "state": "Unavailable", "why": "the proxy has no directory: start it with --directory-config"}]}`, got.body)
}
