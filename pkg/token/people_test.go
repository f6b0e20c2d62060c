package token

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
)

func TestPersonIdentity(t *testing.T) {
	credential := map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=jti-2"}}
	cases := map[string]struct {
		mapping string
		change  func(*mint)
		want    Identity
	}{
		"claims": {
			mapping: peopleMapping,
			want: Identity{Username: "ada@example.com", UID: "42", JTI: "jti-2", Extra: credential,
				Groups: []string{"owners", "dev", "system:authenticated"}},
		},
		"prefixes": {
			mapping: `
  claimMappings:
    username: {claim: sub, prefix: "sso:"}
    groups: {claim: groups, prefix: "sso/"}`,
			want: Identity{Username: "sso:42", JTI: "jti-2", Extra: credential,
				Groups: []string{"sso/owners", "sso/dev", "system:authenticated"}},
		},
		"group as a string": {
			mapping: peopleMapping,
			change:  func(m *mint) { m.claim("groups", "owners") },
			want: Identity{Username: "ada@example.com", UID: "42", JTI: "jti-2", Extra: credential,
				Groups: []string{"owners", "system:authenticated"}},
		},
		"no groups, no jti": {
			mapping: peopleMapping,
			change:  func(m *mint) { m.without("groups").without("jti") },
			want: Identity{Username: "ada@example.com", UID: "42", Extra: map[string][]string{},
				Groups: []string{"system:authenticated"}},
		},
		"groups null, jti a number": {
			mapping: peopleMapping,
			change:  func(m *mint) { m.claim("groups", nil).claim("jti", 7) },
			want: Identity{Username: "ada@example.com", UID: "42", Extra: map[string][]string{},
				Groups: []string{"system:authenticated"}},
		},
		"groups here and elsewhere": {
			mapping: peopleMapping,
			change: func(m *mint) {
				m.claim(claimNames, map[string]any{"groups": "src", "photo": "src"}).claim(claimSources, map[string]any{"src": map[string]any{}})
			},
			want: Identity{Username: "ada@example.com", UID: "42", JTI: "jti-2", Extra: credential,
				Groups: []string{"owners", "dev", "system:authenticated"}},
		},
		"e-mail without a word on verification": {
			mapping: peopleMapping,
			change:  func(m *mint) { m.without("email_verified") },
			want: Identity{Username: "ada@example.com", UID: "42", JTI: "jti-2", Extra: credential,
				Groups: []string{"owners", "dev", "system:authenticated"}},
		},
		"claims of the same name in capitals are others": {
			mapping: peopleMapping,
			change:  func(m *mint) { m.claim("EMAIL", "boss@example.com").claim("Groups", "admins") },
			want: Identity{Username: "ada@example.com", UID: "42", JTI: "jti-2", Extra: credential,
				Groups: []string{"owners", "dev", "system:authenticated"}},
		},
		"a service account's claims mean nothing": {
			mapping: peopleMapping,
			change:  func(m *mint) { m.claim("kubernetes.io", makeServiceAccountToken().claims["kubernetes.io"]) },
			want: Identity{Username: "ada@example.com", UID: "42", JTI: "jti-2", Extra: credential,
				Groups: []string{"owners", "dev", "system:authenticated"}},
		},
		"expressions": {
			mapping: `
  claimMappings:
    username: {expression: "'sso:' + claims.email + (claims.email_verified ? '' : '?')"}
    groups: {expression: "claims.realm__dot__access.roles.filter(r, r != 'guest').map(r, 'sso:' + r)"}
    uid: {expression: "claims.sub"}
    extra:
    - {key: example.com/teams, valueExpression: "claims.teams.split(',')"}
    - {key: example.com/first, valueExpression: "claims.list[0].a__slash__b"}
    - {key: example.com/none, valueExpression: "claims.?absent.orValue('')"}
  claimValidationRules:
  - {claim: tenant, requiredValue: alauda}
  - {expression: "claims.exp - claims.iat <= 86400", message: too long}
  userValidationRules:
  - {expression: "!user.username.startsWith('system:') && user.uid == '42'", message: reserved}
  - {expression: "user.groups.all(g, g.startsWith('sso:'))", message: groups}
  - {expression: "user.extra['example.com/first'] == ['x']", message: extra}`,
			change: func(m *mint) {
				m.claim("realm.access", map[string]any{"roles": []string{"owner", "guest", ""}}).claim("tenant", "alauda").
					claim("teams", "red,blue").claim("list", []any{map[string]any{"a/b": "x"}})
			},
			want: Identity{Username: "sso:ada@example.com", UID: "42", JTI: "jti-2",
				Groups: []string{"sso:owner", "sso:", "system:authenticated"},
				Extra: map[string][]string{
					"authentication.kubernetes.io/credential-id": {"JTI=jti-2"},
					"example.com/teams":                          {"red", "blue"}, "example.com/first": {"x"},
				}},
		},
		"groups by expression, a null": {
			mapping: `
  claimMappings:
    username: {claim: sub, prefix: ""}
    groups: {expression: "claims.groups"}`,
			change: func(m *mint) { m.claim("groups", nil) },
			want:   Identity{Username: "42", JTI: "jti-2", Extra: credential, Groups: []string{"system:authenticated"}},
		},
		"groups by expression, empty ones left out": {
			mapping: `
  claimMappings:
    username: {claim: sub, prefix: ""}
    groups: {expression: "claims.groups"}`,
			change: func(m *mint) { m.claim("groups", []string{"", "dev"}) },
			want:   Identity{Username: "42", JTI: "jti-2", Extra: credential, Groups: []string{"dev", "system:authenticated"}},
		},
		"every algorithm of people": {
			mapping: peopleMapping,
			change:  func(m *mint) { m.signedWith(jwt.SigningMethodPS384, rsaOne()) },
			want: Identity{Username: "ada@example.com", UID: "42", JTI: "jti-2", Extra: credential,
				Groups: []string{"owners", "dev", "system:authenticated"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBenchMapping(t, tc.mapping)
			token := makePersonToken(b.people.URL)
			if tc.change != nil {
				tc.change(token)
			}
			tc.want.Issuer, tc.want.Expiry = b.people.URL, epoch.Add(time.Hour)
			if diff := cmp.Diff(tc.want, *accepted(t, b, token.sign()), cmp.Comparer(time.Time.Equal)); diff != "" {
				t.Errorf("identity (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPersonRefused(t *testing.T) {
	const expressions = `
  claimMappings:
    username: {expression: "claims.name"}
    groups: {expression: "claims.roles"}
    uid: {expression: "claims.id"}
    extra:
    - {key: example.com/team, valueExpression: "claims.team"}
  claimValidationRules:
  - {claim: tenant, requiredValue: alauda}
  - {expression: "claims.level > 3", message: the level is too low}
  - {expression: "claims.kind == 'person'"}
  userValidationRules:
  - {expression: "user.username != 'root'", message: root has no business here}`
	good := func(m *mint) *mint {
		return m.claim("name", "ada").claim("roles", []string{"dev"}).claim("id", "7").claim("team", "red").
			claim("tenant", "alauda").claim("level", 4).claim("kind", "person")
	}
	cases := map[string]struct {
		mapping string
		change  func(*mint)
		want    string
	}{
		"e-mail not verified":     {peopleMapping, func(m *mint) { m.claim("email_verified", false) }, "e-mail address is not verified"},
		"e-mail verified as text": {peopleMapping, func(m *mint) { m.claim("email_verified", "true") }, "e-mail address is not verified"},
		"no user name":            {peopleMapping, func(m *mint) { m.without("email") }, `has no claim "email"`},
		"user name a number":      {peopleMapping, func(m *mint) { m.claim("email", 5) }, `claim "email" is not a string`},
		"user name null":          {peopleMapping, func(m *mint) { m.claim("email", nil) }, "empty user name"},
		"no uid":                  {peopleMapping, func(m *mint) { m.without("sub") }, `has no claim "sub"`},
		"groups an object":        {peopleMapping, func(m *mint) { m.claim("groups", map[string]any{"a": 1}) }, `claim "groups" is neither`},
		"groups of numbers":       {peopleMapping, func(m *mint) { m.claim("groups", []int{1}) }, `claim "groups" is neither`},
		"groups of a mixed list":  {peopleMapping, func(m *mint) { m.claim("groups", []any{"a", 1}) }, `claim "groups" is neither`},
		"groups on another server": {peopleMapping, func(m *mint) {
			m.without("groups").claim(claimNames, map[string]any{"groups": "src"}).claim(claimSources, map[string]any{"src": map[string]any{}})
		}, `leaves its claim "groups" to another server`},
		"claims on no server":      {peopleMapping, func(m *mint) { m.claim(claimNames, map[string]any{"groups": "src"}) }, "claims on no server"},
		"claims elsewhere unclear": {peopleMapping, func(m *mint) { m.claim(claimNames, 1) }, "unreadable references"},
		"sources unclear":          {peopleMapping, func(m *mint) { m.claim(claimSources, 1) }, "unreadable references"},

		"user name by expression empty":    {expressions, func(m *mint) { m.claim("name", "") }, "empty user name"},
		"user name by expression a number": {expressions, func(m *mint) { m.claim("name", 5) }, "issuer's claimMappings.username cannot be evaluated"},
		"user name by expression missing":  {expressions, func(m *mint) { m.without("name") }, "issuer's claimMappings.username cannot be evaluated"},
		"user name by expression reserved": {expressions, func(m *mint) { m.claim("name", "system:kube-proxy") }, `claims the name "system:kube-proxy"`},
		"groups by expression reserved":    {expressions, func(m *mint) { m.claim("roles", []string{"system:masters"}) }, `claims the name "system:masters"`},
		"groups by expression of numbers":  {expressions, func(m *mint) { m.claim("roles", []int{1}) }, "issuer's claimMappings.groups cannot be evaluated"},
		"groups by expression an object":   {expressions, func(m *mint) { m.claim("roles", map[string]any{}) }, "issuer's claimMappings.groups cannot be evaluated"},
		"uid by expression a number":       {expressions, func(m *mint) { m.claim("id", 1) }, "issuer's claimMappings.uid cannot be evaluated"},
		"extra of a wrong type":            {expressions, func(m *mint) { m.claim("team", 1) }, "issuer's claimMappings.extra cannot be evaluated"},
		"extra missing":                    {expressions, func(m *mint) { m.without("team") }, "issuer's claimMappings.extra cannot be evaluated"},
		"required claim missing":           {expressions, func(m *mint) { m.without("tenant") }, `has no claim "tenant"`},
		"required claim differs":           {expressions, func(m *mint) { m.claim("tenant", "other") }, `claim "tenant" is "other" and not "alauda"`},
		"claim rule false":                 {expressions, func(m *mint) { m.claim("level", 3) }, "breaks a rule of its issuer's claimValidationRules: the level is too low"},
		"claim rule without a message":     {expressions, func(m *mint) { m.claim("kind", "robot") }, "claimValidationRules: claims.kind == 'person'"},
		"claim rule not evaluable":         {expressions, func(m *mint) { m.without("level") }, "issuer's claimValidationRules cannot be evaluated"},
		"user rule false":                  {expressions, func(m *mint) { m.claim("name", "root") }, "userValidationRules: root has no business here"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBenchMapping(t, tc.mapping)
			token := good(makePersonToken(b.people.URL))
			accepted(t, b, token.sign())
			tc.change(token)
			e := refused(t, b, token.sign())
			assert.Equal(t, ReasonUnauthenticated, e.Reason)
			assert.Contains(t, e.Detail, tc.want)
		})
	}
}
