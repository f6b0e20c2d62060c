package scim

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/rest"
	"github.com/AlaudaDevops/countersign/pkg/directory/source"
	"github.com/AlaudaDevops/countersign/test/env/resttest"
)

var specialNames = []string{
	"jane doe", `say "hi"`, `"`, `back\slash`, `\`, `\\`, `\"`, "王小明", "a&b=c+d%20", "<a>", "line\nbreak", "\u2028", "tab\t\x01", strings.Repeat("long ", 60) + "x",
}

func emails(values ...string) []map[string]any {
	var all []map[string]any
	for i, value := range values {
		all = append(all, map[string]any{"value": value, "primary": i == 1, "type": "work"})
	}
	return all
}

func everybody() *server {
	users := []map[string]any{
		member("1", "jane", map[string]any{
			"externalId": "E-1", "displayName": "Jane Doe", "emails": emails("jane@example.com", "jane@example.org", "doe@example.org"), "groups": []any{},
		}),
		member("2", "left", map[string]any{"active": false, "emails": emails("left@example.org")}),
		member("3", "silent", map[string]any{"active": nil, "name": map[string]any{"formatted": "Ms. Silent", "givenName": "S"}}),
		member("4", "twin1", map[string]any{"externalId": "twin", "emails": emails("twin@example.org")}),
		member("5", "twin2", map[string]any{"externalId": "twin", "emails": emails("twin@example.org")}),
		member("6", "reused1", map[string]any{"active": false, "externalId": "reused"}),
		member("7", "reused2", map[string]any{"externalId": "reused", "name": map[string]any{"givenName": "Re", "familyName": "Used"}}),
	}
	for i, name := range specialNames {
		users = append(users, member(fmt.Sprintf("s%d", i), name, nil),
			member(fmt.Sprintf("e%d", i), fmt.Sprintf("mailed%d", i), map[string]any{"emails": emails(name)}),
			member(fmt.Sprintf("x%d", i), fmt.Sprintf("external%d", i), map[string]any{"externalId": name}))
	}
	for i, name := range []string{"CASE", "CAse", "CasE", "case", "cASE", "Case"} {
		users = append(users, member(fmt.Sprintf("c%d", i), name, nil))
	}
	for i := range 70 {
		users = append(users, member(fmt.Sprintf("m%d", i), "MANY", nil))
	}
	return newServer(users...)
}

func TestYes(t *testing.T) {
	jane := directory.Person{UID: "1", DisplayName: "Jane Doe", Email: "jane@example.org"}
	for name, test := range map[string]struct {
		most   int
		change func(*Config)
		asked  string
		want   directory.Person
	}{
		"by user name":                  {0, func(*Config) {}, "jane", jane},
		"by user name, without case":    {0, func(c *Config) { c.CaseInsensitive = true }, "JANE", jane},
		"by an address":                 {0, func(c *Config) { c.Match = MatchEmail }, "doe@example.org", jane},
		"by external id":                {0, func(c *Config) { c.Match = MatchExternalID }, "E-1", jane},
		"nothing said of being active":  {0, func(*Config) {}, "silent", directory.Person{UID: "3", DisplayName: "Ms. Silent"}},
		"id that a disabled one had":    {0, func(c *Config) { c.Match = MatchExternalID }, "reused", directory.Person{UID: "7", DisplayName: "Re Used"}},
		"the fourth of six spellings":   {0, func(*Config) {}, "case", directory.Person{UID: "c3"}},
		"the last of six, one by one":   {1, func(*Config) {}, "Case", directory.Person{UID: "c5"}},
		"the last of six, by few":       {4, func(c *Config) { c.PageSize = 64 }, "Case", directory.Person{UID: "c5"}},
		"the first of six, on one page": {0, func(c *Config) { c.PageSize = 64 }, "CASE", directory.Person{UID: "c0"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := everybody()
			s.most = test.most
			person, err := s.client(t, test.change).Lookup(t.Context(), test.asked)
			require.NoError(t, err)
			assert.Equal(t, &test.want, person)
		})
	}
}

func TestNo(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		asked  string
		want   error
	}{
		"absent":                       {func(*Config) {}, "nobody", source.ErrAbsent},
		"another case":                 {func(*Config) {}, "Jane", source.ErrSpelling},
		"disabled":                     {func(*Config) {}, "left", source.ErrDisabled},
		"disabled, by address":         {func(c *Config) { c.Match = MatchEmail }, "left@example.org", source.ErrDisabled},
		"nothing said of being active": {func(c *Config) { c.RequireActive = true }, "silent", source.ErrDisabled},
		"twice, by address":            {func(c *Config) { c.Match = MatchEmail }, "twin@example.org", source.ErrDuplicate},
		"twice, one by one":            {func(c *Config) { c.Match, c.PageSize = MatchExternalID, 1 }, "twin", source.ErrDuplicate},
		"twice without case":           {func(c *Config) { c.CaseInsensitive = true }, "case", source.ErrDuplicate},
		"another attribute":            {func(c *Config) { c.Match = MatchExternalID }, "jane", source.ErrAbsent},
		"injected alternative":         {func(*Config) {}, `x" or userName eq "jane`, source.ErrAbsent},
		"injected parameter":           {func(*Config) {}, `x&filter=userName pr`, source.ErrAbsent},
		"wildcard":                     {func(*Config) {}, "*", source.ErrAbsent},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := everybody().client(t, test.change).Lookup(t.Context(), test.asked)
			require.Equal(t, test.want, err)
		})
	}
	client := everybody().client(t, func(*Config) {})
	for _, name := range []string{"", "\xff", strings.Repeat("x", 4097)} {
		_, err := client.Lookup(t.Context(), name)
		require.ErrorIs(t, err, directory.ErrUnknown)
	}
}

func TestFindsSpecialNames(t *testing.T) {
	for match, prefix := range map[string]string{MatchUserName: "s", MatchEmail: "e", MatchExternalID: "x"} {
		client := everybody().client(t, func(c *Config) { c.Match = match })
		for i, name := range specialNames {
			person, err := client.Lookup(t.Context(), name)
			require.NoErrorf(t, err, "%q by %s", name, match)
			assert.Equal(t, fmt.Sprint(prefix, i), person.UID)
		}
	}
}

func TestAsksAsTheRFCSays(t *testing.T) {
	s := everybody()
	_, err := s.client(t, func(c *Config) { c.Match, c.PageSize = MatchEmail, 7 }).Lookup(t.Context(), `a "b" <c>`)
	require.ErrorIs(t, err, directory.ErrUnknown)
	require.Len(t, s.queries, 1)
	assert.Equal(t, `emails.value eq "a \"b\" <c>"`, s.queries[0].Get("filter"))
	assert.Equal(t, []string{"1", "7", attributes}, []string{s.queries[0].Get("startIndex"), s.queries[0].Get("count"), s.queries[0].Get("attributes")})
	assert.Contains(t, s.accepts[0], "application/scim+json")
}

func TestTooManyUsersAreNoAnswer(t *testing.T) {
	_, err := everybody().client(t, func(*Config) {}).Lookup(t.Context(), "many")
	require.Equal(t, source.ErrTooMany, err)
}

func TestLogsInWithClientCredentials(t *testing.T) {
	s := everybody()
	client := s.client(t, func(c *Config) {
		c.BearerTokenFile = ""
		c.ClientCredentials = &ClientCredentials{
			TokenURL: strings.TrimSuffix(c.URL, "/scim/v2") + "/token", ClientID: "countersign", ClientSecretFile: resttest.File(t, clientSecret), Scopes: []string{"scim"},
		}
	})
	for want := 1; want < 3; want++ {
		_, err := client.Lookup(t.Context(), "jane")
		require.NoError(t, err)
		assert.Equal(t, want, s.Issued())
		s.Revoke()
	}
	assert.Equal(t, []string{"scim"}, s.Scopes())
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %s", client, client, client, client), clientSecret)
}

func TestBadTokens(t *testing.T) {
	s := everybody()
	for name, test := range map[string]struct{ content, want string }{
		"wrong": {"wrong-token", "401 Unauthorized: correct the token"},
		"empty": {"\n", "bearerTokenFile: the file"},
	} {
		_, err := s.client(t, func(c *Config) { c.BearerTokenFile = resttest.File(t, test.content) }).Lookup(t.Context(), "jane")
		require.ErrorContains(t, err, test.want, name)
		require.NotErrorIs(t, err, directory.ErrUnknown)
		assert.NotContains(t, err.Error(), "wrong-token")
	}
}

func TestBrokenAnswersAreNoAnswer(t *testing.T) {
	list := func(rest string) string { return `{"schemas":["` + listSchema + `"],` + rest + `}` }
	const jane = `{"id":"1","userName":"jane","active":true}`
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"invalid filter":  {400, `{"schemas":["` + errorSchema + `"],"scimType":"invalidFilter","detail":"` + token + `"}`, "400 Bad Request (invalidFilter): choose a match"},
		"odd error type":  {400, `{"schemas":["` + errorSchema + `"],"scimType":"` + token + `"}`, "400 Bad Request: choose a match"},
		"no error":        {400, token, "400 Bad Request: choose a match"},
		"forbidden":       {403, `{}`, "403 Forbidden: let our login read users"},
		"not found":       {404, `{}`, "404 Not Found: correct url"},
		"too many":        {429, `{}`, "429 Too Many Requests"},
		"down":            {503, token, "503 Service Unavailable"},
		"not implemented": {501, `{}`, "501 Not Implemented: the service cannot search"},
		"login page":      {200, `<html>`, "not the JSON that was asked for"},
		"null":            {200, `null`, "no ListResponse"},
		"a user":          {200, jane, "no ListResponse"},
		"SCIM 1.1":        {200, `{"schemas":["urn:scim:schemas:core:1.0"],"totalResults":1,"Resources":[` + jane + `]}`, "no ListResponse"},
		"no total":        {200, list(`"Resources":[` + jane + `]`), "how many users"},
		"too small total": {200, list(`"totalResults":0,"Resources":[` + jane + `]`), "how many users"},
		"nobody shown":    {200, list(`"totalResults":2`), "announces more users than it shows"},
		"no id":           {200, list(`"totalResults":1,"Resources":[{"userName":"jane"}]`), "no id or no userName"},
		"no user name":    {200, list(`"totalResults":1,"Resources":[{"id":"1"}]`), "no id or no userName"},
		"active?":         {200, list(`"totalResults":1,"Resources":[{"id":"1","userName":"jane","active":"false"}]`), "not the JSON that was asked for"},
		"same page again": {200, list(`"totalResults":2,"Resources":[` + jane + `]`), "the same entry twice"},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}))
			client, err := New(c)
			require.NoError(t, err)
			_, err = client.Lookup(t.Context(), "jane")
			var unavailable *directory.UnavailableError
			require.ErrorAs(t, err, &unavailable)
			assert.Contains(t, unavailable.Why, test.want)
			assert.NotContains(t, unavailable.Why, token)
			if test.status == http.StatusTooManyRequests {
				assert.Equal(t, 7*time.Second, unavailable.RetryAfter)
			}
		})
	}
}

// logins are the ways to log in, each with the requests of its first look-up.
var logins = map[string]struct {
	open  resttest.Opener
	steps []resttest.Step
}{
	"with a token":            {withToken, []resttest.Step{{Name: "users", Path: "/Users"}}},
	"with client credentials": {withCredentials, []resttest.Step{{Name: "token", Path: "/token"}, {Name: "users", Path: "/Users"}}},
}

func withToken(t *testing.T, address, caFile string) directory.Directory {
	return opened(t, Config{Server: at(address, caFile), BearerTokenFile: resttest.File(t, token)})
}

func withCredentials(t *testing.T, address, caFile string) directory.Directory {
	return opened(t, Config{Server: at(address, caFile), ClientCredentials: &ClientCredentials{
		TokenURL: address + "/token", ClientID: "countersign", ClientSecretFile: resttest.File(t, clientSecret),
	}})
}

func at(address, caFile string) rest.Server {
	return rest.Server{URL: address + "/scim/v2", CAFile: caFile, InsecurePlaintext: true}
}

func opened(t *testing.T, c Config) directory.Directory {
	t.Helper()
	client, err := New(c)
	require.NoError(t, err)
	return client
}

func TestS16_UntrustedServersAreRefused(t *testing.T) {
	for name, login := range logins {
		t.Run(name, func(t *testing.T) { resttest.RefusesUntrusted(t, everybody(), "jane", login.open) })
	}
}

func TestPlaintextWorksWhereItIsAccepted(t *testing.T) {
	for name, login := range logins {
		t.Run(name, func(t *testing.T) { resttest.WorksInPlaintext(t, everybody(), "jane", login.open) })
	}
}

func TestObeysTheContext(t *testing.T) {
	for name, login := range logins {
		t.Run(name, func(t *testing.T) {
			resttest.GivesUpWhenSlow(t, everybody(), "jane", login.open, login.steps...)
		})
	}
}

func TestS16_RedirectsCarryNoCredentialsAway(t *testing.T) {
	for name, login := range logins {
		t.Run(name, func(t *testing.T) { resttest.StaysOnItsHost(t, everybody(), "jane", login.open, login.steps...) })
	}
}

func TestValidate(t *testing.T) {
	credentials := func() *ClientCredentials {
		return &ClientCredentials{TokenURL: "https://sso/token", ClientID: "c", ClientSecretFile: "/f"}
	}
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"minimal":            {func(*Config) {}, ""},
		"credentials":        {func(c *Config) { c.BearerTokenFile, c.ClientCredentials = "", credentials() }, ""},
		"accepted plaintext": {func(c *Config) { c.URL, c.InsecurePlaintext = "http://scim", true }, ""},
		"plaintext":          {func(c *Config) { c.URL = "http://scim" }, "set insecurePlaintext"},
		"no login":           {func(c *Config) { c.BearerTokenFile = "" }, "set one of them"},
		"two logins":         {func(c *Config) { c.ClientCredentials = credentials() }, "set one of them"},
		"unknown match":      {func(c *Config) { c.Match = "nickName" }, "match \"nickName\" is unknown"},
		"large pages":        {func(c *Config) { c.PageSize = 65 }, "a pageSize of 65"},
		"half a client":      {func(c *Config) { c.BearerTokenFile, c.ClientCredentials = "", &ClientCredentials{ClientID: "c"} }, "needs clientID and clientSecretFile"},
		"plaintext of a token": {func(c *Config) {
			c.BearerTokenFile, c.ClientCredentials = "", credentials()
			c.ClientCredentials.TokenURL = "http://sso"
		}, "tokenURL is http://"},
		"no authorities": {func(c *Config) { c.CAFile = "/nowhere" }, "caFile cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Server: rest.Server{URL: "https://scim.example.org/v2"}, BearerTokenFile: "/t"}
			test.change(&c)
			_, err := New(c)
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}
