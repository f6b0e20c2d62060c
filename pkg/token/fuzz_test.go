package token

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// FuzzAuthenticate feeds garbage; whatever it is, there is either an identity that the cluster signed
// or a refusal without the token in it, and never a panic.
func FuzzAuthenticate(f *testing.F) {
	b := newBench(f)
	good := makeServiceAccountToken().sign()
	person := makePersonToken(b.people.URL).sign()
	seeds := []string{
		"", ".", "..", "...", good, person, good + "=", strings.ToUpper(good),
		good[:strings.LastIndexByte(good, '.')+1], "eyJhbGciOiJub25lIn0.e30.", "e30.e30.e30", "bnVsbA.bnVsbA.",
		makeServiceAccountToken().claim("kubernetes.io", "text").sign(),
		makeServiceAccountToken().claim("exp", map[string]any{"a": []int{1}}).sign(),
		makePersonToken(b.people.URL).claim("groups", map[string]any{}).sign(),
		makePersonToken(b.people.URL).claim("_claim_names", 1).without("groups").sign(),
	}
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		id, err := b.Authenticate(context.Background(), token)
		if err == nil {
			if token != good && token != person {
				t.Fatalf("accepted as %s", id.Username)
			}
			return
		}
		var e *Error
		if id != nil || !errors.As(err, &e) || e.Detail == "" {
			t.Fatalf("refused as %v with identity %v", err, id)
		}
		if len(token) > 64 && strings.Contains(e.Detail, token) {
			t.Fatal("the token stands in the error")
		}
	})
}

// FuzzClaims feeds signed payloads, which only a broken issuer sends.
func FuzzClaims(f *testing.F) {
	b := newBenchMapping(f, `
  claimMappings:
    username: {expression: "claims.sub"}
    groups: {claim: groups, prefix: ""}
    extra:
    - {key: example.com/deep, valueExpression: "claims.?a.?b__dot__c[?0].orValue('')"}
  userValidationRules:
  - {expression: "user.groups.all(g, g != '')"}`)
	f.Add(`"sub":"a"`, false)
	f.Add(`"sub":"a","groups":["b"],"a":{"b.c":["d"]}`, false)
	f.Add(`"sub":1,"groups":{}`, false)
	f.Add(`"sub":"system:serviceaccount:a:b","kubernetes.io":{"namespace":"a","serviceaccount":{"name":"b","uid":"c"}}`, true)
	f.Fuzz(func(t *testing.T, members string, cluster bool) {
		from := b.issuers[b.people.URL]
		if cluster {
			from = b.issuers[clusterIssuer]
		}
		parsed := &compact{}
		if parsed.readPayload(segments.EncodeToString([]byte(`{`+members+`}`))) != nil {
			return
		}
		id, err := from.reader.identity(context.Background(), parsed)
		if (id == nil) == (err == nil) {
			t.Fatalf("identity %v with refusal %v", id, err)
		}
		if id != nil && (id.ServiceAccount != nil) != cluster {
			t.Fatalf("%s is of the wrong kind", id.Username)
		}
	})
}
