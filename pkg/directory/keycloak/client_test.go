package keycloak

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
	"github.com/AlaudaDevops/countersign/test/env/resttest"
)

// specialNames are values of an attribute, of the user name, and of the address, each of another user.
var specialNames = []string{
	"jane doe", `say "hi"`, `"`, `back\slash`, "王小明", "a:b", "a&b=c+d%20", "a*b", "' OR 1=1", "line\nbreak", strings.Repeat("long ", 60) + "x",
}

func attribute(values ...string) map[string]any {
	return map[string]any{"attributes": map[string][]string{"k8s": values, "other": {"of no matter"}}}
}

func everybody() *server {
	no := func(key string) map[string]any { return map[string]any{key: false} }
	users := []map[string]any{
		member("1", "jane", "jane@example.org", attribute("Jane", "oidc:jane")),
		member("2", "left", "left@example.org", no("enabled")),
		member("3", "careless", "careless@example.org", no("emailVerified")),
		member("4", "twin1", "twin@example.org", attribute("twin")),
		member("5", "twin2", "twin@example.org", attribute("twin")),
		member("6", "reused1", "reused@example.org", no("enabled")),
		member("7", "reused2", "reused@example.org", nil),
		member("8", "claimed1", "claimed@example.org", no("emailVerified")),
		member("9", "claimed2", "claimed@example.org", nil),
		member("10", "service-account-deployer", "", nil),
		member("11", "linked", "", map[string]any{"serviceAccountClientId": "deployer"}),
		member("12", "nameless", "", map[string]any{"firstName": "", "lastName": "Only"}),
	}
	for i, name := range specialNames {
		users = append(users, member(fmt.Sprintf("s%d", i), fmt.Sprintf("special%d", i), "", attribute(name)),
			member(fmt.Sprintf("u%d", i), name, "", nil), member(fmt.Sprintf("e%d", i), fmt.Sprintf("mailed%d", i), name, nil))
	}
	for i, name := range []string{"CASE", "CAse", "CasE", "case", "cASE", "Case"} {
		users = append(users, member(fmt.Sprintf("c%d", i), fmt.Sprintf("case%d", i), "", attribute(name)))
	}
	for i := range 70 {
		users = append(users, member(fmt.Sprintf("m%d", i), fmt.Sprintf("many%d", i), "", attribute("MANY")))
	}
	return newServer(users...)
}

func TestYes(t *testing.T) {
	byAttribute := func(c *Config) { c.Match = "attribute:k8s" }
	byEmail := func(c *Config) { c.Match = MatchEmail }
	jane := directory.Person{UID: "1", DisplayName: "First Last", Email: "jane@example.org"}
	for name, test := range map[string]struct {
		change func(*Config)
		asked  string
		want   directory.Person
	}{
		"by user name":                {func(*Config) {}, "jane", jane},
		"by user name, without case":  {func(c *Config) { c.CaseInsensitive = true }, "JANE", jane},
		"by address":                  {byEmail, "jane@example.org", jane},
		"by attribute":                {byAttribute, "Jane", jane},
		"by the attribute's second":   {byAttribute, "oidc:jane", jane},
		"one name only":               {func(*Config) {}, "nameless", directory.Person{UID: "12", DisplayName: "Only"}},
		"address not asked for":       {func(*Config) {}, "careless", directory.Person{UID: "3", DisplayName: "First Last", Email: "careless@example.org"}},
		"unverified, as configured":   {func(c *Config) { byEmail(c); c.RequireVerifiedEmail = new(bool) }, "careless@example.org", directory.Person{UID: "3", DisplayName: "First Last", Email: "careless@example.org"}},
		"address of a disabled one":   {byEmail, "reused@example.org", directory.Person{UID: "7", DisplayName: "First Last", Email: "reused@example.org"}},
		"address others also claim":   {byEmail, "claimed@example.org", directory.Person{UID: "9", DisplayName: "First Last", Email: "claimed@example.org"}},
		"the fourth of six spellings": {byAttribute, "case", directory.Person{UID: "c3", DisplayName: "First Last"}},
		"the last of six, one by one": {func(c *Config) { byAttribute(c); c.PageSize = 1 }, "Case", directory.Person{UID: "c5", DisplayName: "First Last"}},
		"all on one page":             {func(c *Config) { byAttribute(c); c.PageSize = 64 }, "CASE", directory.Person{UID: "c0", DisplayName: "First Last"}},
	} {
		t.Run(name, func(t *testing.T) {
			person, err := everybody().client(t, test.change).Lookup(t.Context(), test.asked)
			require.NoError(t, err)
			assert.Equal(t, &test.want, person)
		})
	}
}

func TestNo(t *testing.T) {
	byAttribute := func(c *Config) { c.Match = "attribute:k8s" }
	byEmail := func(c *Config) { c.Match = MatchEmail }
	for name, test := range map[string]struct {
		change func(*Config)
		asked  string
		want   string
	}{
		"absent":                {func(*Config) {}, "nobody", source.ErrAbsent.Error()},
		"another case":          {func(*Config) {}, "Jane", source.ErrSpelling.Error()},
		"disabled":              {func(*Config) {}, "left", source.ErrDisabled.Error()},
		"disabled, by address":  {byEmail, "left@example.org", source.ErrDisabled.Error()},
		"twice, by address":     {byEmail, "twin@example.org", source.ErrDuplicate.Error()},
		"twice, by attribute":   {byAttribute, "twin", source.ErrDuplicate.Error()},
		"twice, one by one":     {func(c *Config) { byAttribute(c); c.PageSize = 1 }, "twin", source.ErrDuplicate.Error()},
		"unverified":            {byEmail, "careless@example.org", "the e-mail address is not verified"},
		"service account":       {func(*Config) {}, "service-account-deployer", "which is not a person"},
		"linked service":        {func(*Config) {}, "linked", "which is not a person"},
		"another attribute":     {func(c *Config) { c.Match = "attribute:unknown" }, "jane", source.ErrAbsent.Error()},
		"doubled backslash":     {byAttribute, `a\\b`, "where Keycloak cannot search for one"},
		"backslash at the end":  {byAttribute, `a\`, "where Keycloak cannot search for one"},
		"backslash and quote":   {byAttribute, `a\"b`, "where Keycloak cannot search for one"},
		"injected second field": {byAttribute, `x" other:"of no matter`, source.ErrAbsent.Error()},
		"injected parameter":    {func(*Config) {}, "x&username=jane", source.ErrAbsent.Error()},
		"wildcard":              {func(*Config) {}, "j*", source.ErrAbsent.Error()},
		"empty":                 {func(*Config) {}, "", "nobody's"},
		"too long":              {func(*Config) {}, strings.Repeat("x", 4097), "longer than"},
		"no UTF-8":              {func(*Config) {}, "\xff", "no valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := everybody().client(t, test.change).Lookup(t.Context(), test.asked)
			require.ErrorIs(t, err, directory.ErrUnknown)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestFindsSpecialNames(t *testing.T) {
	for match, prefix := range map[string]string{"attribute:k8s": "s", MatchUsername: "u", MatchEmail: "e"} {
		client := everybody().client(t, func(c *Config) { c.Match = match })
		for i, name := range specialNames {
			person, err := client.Lookup(t.Context(), name)
			require.NoErrorf(t, err, "%q by %s", name, match)
			assert.Equal(t, fmt.Sprint(prefix, i), person.UID)
		}
	}
}

func TestNobodyHasAnInjectedName(t *testing.T) {
	for _, match := range []string{"attribute:k8s", MatchUsername, MatchEmail} {
		client := everybody().client(t, func(c *Config) { c.Match = match })
		for _, name := range []string{
			"*", "j*", "%", "j_ne", "jane*", "*jane@example.org", "jane ", " jane", "jane&exact=false", "jane#", "jane%00", "jane\x00", "x&email=jane@example.org",
			"../jane", "jane/..", "jane?first=0", "username:jane", `jane" k8s:"Jane`, "Jane other:x", "jane;username=jane", "ｊａｎｅ", "jane\r\nHost: x",
		} {
			_, err := client.Lookup(t.Context(), name)
			require.ErrorIsf(t, err, directory.ErrUnknown, "%q by %s", name, match)
		}
	}
}

func TestAsksAsDocumented(t *testing.T) {
	s := everybody()
	_, err := s.client(t, func(*Config) {}).Lookup(t.Context(), "jane & co")
	require.ErrorIs(t, err, directory.ErrUnknown)
	require.Len(t, s.queries, 2)
	assert.Equal(t, "briefRepresentation=true&exact=true&first=0&max=2&username=jane+%26+co", s.queries[0].Encode())
	assert.Equal(t, "briefRepresentation=true&first=0&max=1", s.queries[1].Encode(), "whether anybody is shown")
}

func TestNeitherYesNorNo(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*server)
		config func(*testing.T, *Config)
		want   string
	}{
		"blind login":       {func(s *server) { s.blind = true }, func(*testing.T, *Config) {}, "the realm shows nobody at all"},
		"empty realm":       {func(s *server) { s.users = nil }, func(*testing.T, *Config) {}, "the realm shows nobody at all"},
		"another realm":     {func(*server) {}, func(_ *testing.T, c *Config) { c.Realm = "other" }, "correct url and realm"},
		"realm, with token": {func(*server) {}, func(_ *testing.T, c *Config) { c.TokenURL = c.URL + "/token"; c.Realm = "../other" }, "404 Not Found: correct url and realm"},
		"wrong secret":      {func(*server) {}, func(t *testing.T, c *Config) { c.ClientSecretFile = resttest.File(t, "wrong") }, "(invalid_client): correct clientID"},
		"token from others": {func(s *server) { s.endpoint = "https://elsewhere.example.org/token" }, func(*testing.T, *Config) {}, "set tokenURL"},
		"token in the open": {func(s *server) { s.endpoint = "http://127.0.0.1/token" }, func(*testing.T, *Config) {}, "set tokenURL"},
		"no token endpoint": {func(s *server) { s.endpoint = "/" }, func(*testing.T, *Config) {}, "set tokenURL"},
		"too many":          {func(*server) {}, func(_ *testing.T, c *Config) { c.Match = "attribute:k8s" }, "too many entries for one name"},
	} {
		t.Run(name, func(t *testing.T) {
			s := everybody()
			test.change(s)
			_, err := s.client(t, func(c *Config) { test.config(t, c) }).Lookup(t.Context(), "many")
			var unavailable *directory.UnavailableError
			require.ErrorAs(t, err, &unavailable)
			assert.Contains(t, unavailable.Why, test.want)
			assert.Positive(t, unavailable.RetryAfter)
			assert.NotContains(t, err.Error(), clientSecret)
		})
	}
}

func TestATokenThatWasRevokedIsReplaced(t *testing.T) {
	s := everybody()
	client := s.client(t, func(*Config) {})
	for want := 1; want < 4; want++ {
		_, err := client.Lookup(t.Context(), "jane")
		require.NoError(t, err)
		_, err = client.Lookup(t.Context(), "left")
		require.ErrorIs(t, err, directory.ErrUnknown)
		assert.Equal(t, want, s.Issued())
		s.Revoke()
	}
}

// answer lets tokens be had as usual, and answers every question about users the same.
func answer(t *testing.T, status int, body string) *Client {
	t.Helper()
	s := newServer()
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.HandleFunc("/admin/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	c := serve(t, mux, "")
	c.TokenURL = c.URL + "/token"
	client, err := New(c)
	require.NoError(t, err)
	return client
}

func TestBrokenAnswersAreNoAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"forbidden":     {403, `{"error":"unknown_error"}`, "403 Forbidden: give the client's service account the role view-users"},
		"unauthorized":  {401, `{}`, "401 Unauthorized: let the client's service account"},
		"down":          {503, `{}`, "503 Service Unavailable"},
		"error":         {500, clientSecret, "500 Internal Server Error"},
		"null":          {200, `null`, "it is no list of users"},
		"object":        {200, `{}`, "not the JSON that was asked for"},
		"login page":    {200, `<html>`, "not the JSON that was asked for"},
		"no id":         {200, `[{"username":"jane","enabled":true}]`, "a user has no id"},
		"no user name":  {200, `[{"id":"1","enabled":true}]`, "a user has no id"},
		"not enabled?":  {200, `[{"id":"1","username":"jane"}]`, "a user has no id"},
		"enabled?":      {200, `[{"id":"1","username":"jane","enabled":"yes"}]`, "not the JSON that was asked for"},
		"same twice":    {200, `[{"id":"1","username":"jane","enabled":true},{"id":"1","username":"jane","enabled":true}]`, "the same entry twice"},
		"unasked pages": {200, `[{"id":"1","username":"a","enabled":true},{"id":"2","username":"b","enabled":true},{"id":"3","username":"c","enabled":true}]`, "it is no list of users of the length"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := answer(t, test.status, test.body).Lookup(t.Context(), "jane")
			require.ErrorContains(t, err, test.want)
			require.NotErrorIs(t, err, directory.ErrUnknown)
			assert.NotContains(t, err.Error(), clientSecret)
		})
	}
}

// steps are the requests of a client's first look-up.
var steps = []resttest.Step{{Name: "discovery", Path: "/.well-known/"}, {Name: "token", Path: "/token"}, {Name: "users", Path: "/users"}}

// janes is a realm in which the token endpoint is wherever the realm is asked.
func janes() http.Handler {
	s := everybody()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endpoint = scheme + "://" + r.Host + "/token"
		s.ServeHTTP(w, r)
	})
}

func opener(t *testing.T, address, caFile string) directory.Directory {
	t.Helper()
	client, err := New(Config{
		Server: rest.Server{URL: address, CAFile: caFile, InsecurePlaintext: true}, Realm: realm,
		ClientID: "countersign", ClientSecretFile: resttest.File(t, clientSecret),
	})
	require.NoError(t, err)
	return client
}

func TestS16_UntrustedServersAreRefused(t *testing.T) {
	resttest.RefusesUntrusted(t, janes(), "jane", opener)
}

func TestPlaintextWorksWhereItIsAccepted(t *testing.T) {
	resttest.WorksInPlaintext(t, janes(), "jane", opener)
}

func TestObeysTheContext(t *testing.T) {
	resttest.GivesUpWhenSlow(t, janes(), "jane", opener, steps...)
}

func TestS16_RedirectsCarryNoCredentialsAway(t *testing.T) {
	resttest.StaysOnItsHost(t, janes(), "jane", opener, steps...)
}

func TestNothingPrintsSecrets(t *testing.T) {
	s := everybody()
	client := s.client(t, func(*Config) {})
	_, err := client.Lookup(t.Context(), "jane")
	require.NoError(t, err)
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s", client, client, client, client), clientSecret)
}

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"minimal":                {func(*Config) {}, ""},
		"by attribute":           {func(c *Config) { c.Match = "attribute:k8s-name" }, ""},
		"plaintext":              {func(c *Config) { c.URL = "http://sso" }, "set insecurePlaintext"},
		"accepted plaintext":     {func(c *Config) { c.URL, c.InsecurePlaintext = "http://sso", true }, ""},
		"no URL":                 {func(c *Config) { c.URL = "" }, "url must be"},
		"no realm":               {func(c *Config) { c.Realm = "" }, "realm is missing"},
		"parent as the realm":    {func(c *Config) { c.Realm = ".." }, "realm is missing"},
		"no client":              {func(c *Config) { c.ClientID = "" }, "clientID and clientSecretFile"},
		"no secret":              {func(c *Config) { c.ClientSecretFile = "" }, "clientID and clientSecretFile"},
		"plaintext token":        {func(c *Config) { c.TokenURL = "http://sso" }, "tokenURL is http://"},
		"large pages":            {func(c *Config) { c.PageSize = 65 }, "a pageSize of 65"},
		"negative pages":         {func(c *Config) { c.PageSize = -1 }, "a pageSize of -1"},
		"unknown match":          {func(c *Config) { c.Match = "id" }, "match \"id\" is unknown"},
		"attribute without name": {func(c *Config) { c.Match = "attribute:" }, "names no attribute"},
		"attribute with a colon": {func(c *Config) { c.Match = "attribute:a:b" }, "names no attribute"},
		"attribute with a blank": {func(c *Config) { c.Match = "attribute:a b" }, "names no attribute"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Server: rest.Server{URL: "https://sso.example.org/auth"}, Realm: "r", ClientID: "c", ClientSecretFile: "/f"}
			test.change(&c)
			_, err := New(c)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := New(Config{Server: rest.Server{URL: "https://sso", CAFile: "/nowhere"}, Realm: "r", ClientID: "c", ClientSecretFile: "/f"})
	require.ErrorContains(t, err, "caFile cannot be read")
}
