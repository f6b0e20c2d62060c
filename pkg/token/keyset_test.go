package token

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeyRotation(t *testing.T) {
	b := newBench(t)
	old := makeServiceAccountToken().sign()
	next := makeServiceAccountToken().signedWith(jwt.SigningMethodRS256, rsaTwo()).head("kid", "two").sign()
	known := accepted(t, b, old)

	b.cluster.set(publish("one", rsaOne()), publish("two", rsaTwo()))
	assert.Contains(t, refused(t, b, next).Detail, "does not publish", "the least interval has not passed")
	b.clock.Step(10 * time.Second)
	accepted(t, b, next)
	assert.Same(t, known, accepted(t, b, old), "a key that stays keeps its cached identities")

	b.cluster.set(publish("two", rsaTwo()))
	accepted(t, b, old)
	b.clock.Step(10 * time.Second)
	require.NoError(t, b.Verifier.cluster.refresh(context.Background()))
	assert.Contains(t, refused(t, b, old).Detail, `signed with key "one"`, "a withdrawn key ends the cached identity")
	accepted(t, b, next)
}

func TestKeyExchangedUnderItsID(t *testing.T) {
	for _, kid := range []string{"one", ""} {
		t.Run("kid "+kid, func(t *testing.T) {
			b := newBench(t)
			b.cluster.set(publish(kid, rsaOne()))
			old := makeServiceAccountToken().head("kid", kid).sign()
			next := makeServiceAccountToken().head("kid", kid).signedWith(jwt.SigningMethodRS256, rsaTwo()).sign()
			accepted(t, b, old)
			b.cluster.set(publish(kid, rsaTwo()))
			assert.Contains(t, refused(t, b, next).Detail, "does not match any key")
			b.clock.Step(10 * time.Second)
			accepted(t, b, next)
			assert.Contains(t, refused(t, b, old).Detail, "does not match any key")
		})
	}
}

func TestKeysUnreachable(t *testing.T) {
	b := newBench(t)
	token := makeServiceAccountToken().sign()
	b.cluster.answer(http.StatusInternalServerError)

	e := refused(t, b, token)
	assert.Equal(t, ReasonNotReady, e.Reason)
	assert.NotContains(t, e.Detail, b.cluster.URL, "inner addresses are for logs")
	assert.ErrorContains(t, errors.Unwrap(e), "500")
	require.Error(t, b.Ready())

	b.cluster.answer(http.StatusOK)
	assert.Equal(t, ReasonNotReady, refused(t, b, token).Reason, "the least interval has not passed")
	b.clock.Step(10 * time.Second)
	accepted(t, b, token)
	require.NoError(t, b.Ready())

	b.cluster.answer(http.StatusServiceUnavailable)
	long := makeServiceAccountToken().claim("exp", epoch.Add(48*time.Hour).Unix()).sign()
	accepted(t, b, long)
	b.clock.Step(time.Hour - time.Second)
	accepted(t, b, long)
	accepted(t, b, makeServiceAccountToken().claim("exp", epoch.Add(48*time.Hour).Unix()).claim("jti", "first sight").sign())
	unknown := makeServiceAccountToken().claim("exp", epoch.Add(48*time.Hour).Unix()).head("kid", "two").sign()
	assert.Equal(t, ReasonNotReady, refused(t, b, unknown).Reason, "the issuer may publish it by now")
	b.clock.Step(time.Second)
	assert.Equal(t, ReasonNotReady, refused(t, b, long).Reason, "keys too old, known token too")
	require.Error(t, b.Ready())

	b.cluster.answer(http.StatusOK)
	b.clock.Step(10 * time.Second)
	accepted(t, b, long)
}

func TestOneIssuerDownLeavesTheOther(t *testing.T) {
	b := newBench(t)
	b.people.answer(http.StatusBadGateway)
	accepted(t, b, makeServiceAccountToken().sign())
	assert.Equal(t, ReasonNotReady, refused(t, b, makePersonToken(b.people.URL).sign()).Reason)
	require.NoError(t, b.Ready())
	health := b.Health()
	require.Len(t, health, 2)
	assert.True(t, health[0].Usable)
	assert.Equal(t, 2, health[0].Keys)
	assert.Equal(t, epoch, health[0].ReadAt)
	assert.False(t, health[1].Usable)
	assert.ErrorContains(t, health[1].Err, "502")
}

func TestNobodyPublishesForEverybody(t *testing.T) {
	b := newBench(t)
	b.cluster.set(publish("one", rsaOne()))
	b.people.set(publish("two", rsaTwo()))
	forged := makeServiceAccountToken().signedWith(jwt.SigningMethodRS256, rsaTwo()).head("kid", "two").sign()
	accepted(t, b, makePersonToken(b.people.URL).signedWith(jwt.SigningMethodRS256, rsaTwo()).head("kid", "two").sign())
	assert.Contains(t, refused(t, b, forged).Detail, `signed with key "two"`, "each issuer has its own keys")
}

func TestUnknownKeysCauseFewReads(t *testing.T) {
	b := newBench(t)
	var all sync.WaitGroup
	for i := range 50 {
		token := makeServiceAccountToken().head("kid", fmt.Sprint("unknown-", i)).sign()
		all.Go(func() { _, _ = b.Authenticate(context.Background(), token) })
	}
	all.Wait()
	assert.EqualValues(t, 1, b.cluster.reads.Load())
}

func TestDocumentsThatAreRefused(t *testing.T) {
	many := make([]published, maxKeys+1)
	for i := range many {
		many[i] = publish(fmt.Sprint(i), ecOne())
	}
	cases := map[string]struct {
		document any
		want     string
	}{
		"huge":          {`{"keys":[],"pad":"` + strings.Repeat("x", maxDocumentBytes) + `"}`, "more than 1048576 bytes"},
		"too many keys": {map[string]any{"keys": many}, "has 65 keys"},
		"a page":        {"<html>sign in</html>", "no JSON"},
		"no keys":       {map[string]any{}, `has no "keys"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			token := makeServiceAccountToken().sign()
			accepted(t, b, token)
			b.cluster.setDocument(tc.document)
			b.clock.Step(10 * time.Second)
			require.ErrorContains(t, b.Verifier.cluster.refresh(context.Background()), tc.want)
			accepted(t, b, token)
		})
	}
}

func TestEmptyKeySetEndsEverything(t *testing.T) {
	b := newBench(t)
	token := makeServiceAccountToken().sign()
	accepted(t, b, token)
	b.cluster.set()
	b.clock.Step(10 * time.Second)
	require.NoError(t, b.Verifier.cluster.refresh(context.Background()))
	assert.Equal(t, ReasonUnauthenticated, refused(t, b, token).Reason)
}

func TestParseKeysLeavesOut(t *testing.T) {
	small := mustRSA(1024)
	cases := map[string]published{
		"symmetric":            {"kty": "oct", "kid": "k", "k": "c2VjcmV0"},
		"Edwards":              {"kty": "OKP", "kid": "k", "crv": "Ed25519", "x": "AA"},
		"for encryption":       publish("k", rsaOne()).with("use", "enc"),
		"RSA with HMAC":        publish("k", rsaOne()).with("alg", "HS256"),
		"RSA with none":        publish("k", rsaOne()).with("alg", "none"),
		"RSA with EC":          publish("k", rsaOne()).with("alg", "ES256"),
		"RSA too small":        publish("k", small),
		"RSA exponent one":     publish("k", rsaOne()).with("e", "AQ"),
		"RSA exponent even":    publish("k", rsaOne()).with("e", "BA"),
		"RSA exponent huge":    publish("k", rsaOne()).with("e", "AQAAAAE"),
		"RSA modulus garbled":  publish("k", rsaOne()).with("n", "?"),
		"EC off the curve":     publish("k", ecOne()).with("x", strings.Repeat("A", 43)),
		"EC unknown curve":     publish("k", ecOne()).with("crv", "secp256k1"),
		"EC short coordinate":  publish("k", ecOne()).with("y", "AA"),
		"EC other curve's alg": publish("k", ecOne()).with("alg", "ES384"),
		"EC wrong curve":       publish("k", ecOne()).with("crv", "P-384"),
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.cluster.set(tc, publish("one", rsaOne()))
			accepted(t, b, makeServiceAccountToken().sign())
			assert.Equal(t, 1, b.Health()[0].Keys)
		})
	}
}

func TestDiscovery(t *testing.T) {
	t.Run("names another issuer", func(t *testing.T) {
		b := newBench(t)
		b.people.name = "https://other.example.com"
		e := refused(t, b, makePersonToken(b.people.URL).sign())
		assert.Equal(t, ReasonNotReady, e.Reason)
		assert.ErrorContains(t, errors.Unwrap(e), "is that of issuer")
	})
	t.Run("elsewhere", func(t *testing.T) {
		f := newFakeIssuer(t, publish("one", rsaOne()))
		f.name = "https://sso.example.com"
		text := strings.Replace(string(configFor(f, peopleMapping)), "url: "+f.URL, "url: https://sso.example.com\n    discoveryURL: "+f.URL+discoveryPath, 1)
		config, err := ParseConfig([]byte(text))
		require.NoError(t, err)
		b := newBench(t)
		v, err := New(b.cluster.cluster(), config, Options{Clock: b.clock})
		require.NoError(t, err)
		assert.Equal(t, "ada@example.com", accepted(t, v, makePersonToken("https://sso.example.com").sign()).Username)
	})
	t.Run("certificate of somebody else", func(t *testing.T) {
		b := newBench(t)
		config, err := ParseConfig([]byte(strings.Replace(string(configFor(b.people, peopleMapping)), "certificateAuthority: ", "# ", 1)))
		require.NoError(t, err)
		v, err := New(b.cluster.cluster(), config, Options{Clock: b.clock})
		require.NoError(t, err)
		e := refused(t, v, makePersonToken(b.people.URL).sign())
		assert.ErrorContains(t, errors.Unwrap(e), "certificate")
	})
}

func TestKeysOverPlainHTTPAreRefused(t *testing.T) {
	mux := http.NewServeMux()
	f := newFakeIssuer(t, publish("one", rsaOne()))
	f.Config.Handler = mux
	keys := "http://127.0.0.1/keys"
	mux.HandleFunc(discoveryPath, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, f.URL, keys)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1/keys", http.StatusFound)
	})
	config, err := ParseConfig(configFor(f, peopleMapping))
	require.NoError(t, err)
	read := discoveredKeys(issuerClient(config.issuers[0].roots, time.Minute), f.URL, "")
	_, err = read(context.Background())
	assert.ErrorContains(t, err, "no https address")
	keys = f.URL + "/moved"
	_, err = read(context.Background())
	assert.ErrorContains(t, err, "leaves https")
}

func TestStartKeepsKeysFresh(t *testing.T) {
	b := newBench(t)
	var lines []string
	var mu sync.Mutex
	log := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{})
	ctx, stop := context.WithCancel(logr.NewContext(context.Background(), log))
	defer stop()
	require.Error(t, b.Ready(), "nothing is read before the start")
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, b.Start(ctx)) })

	// Each step waits until both issuers are read and their timers stand.
	settle := func(reads int32) {
		require.Eventually(t, func() bool { return b.cluster.reads.Load() == reads && b.clock.Waiters() == 2 }, 10*time.Second, time.Millisecond)
	}
	settle(1)
	require.NoError(t, b.Ready())
	b.clock.Step(5 * time.Minute)
	settle(2)
	b.cluster.answer(http.StatusInternalServerError)
	b.clock.Step(5 * time.Minute)
	settle(3)
	for reads := int32(4); reads < 7; reads++ { // only the failing issuer is read again soon
		b.clock.Step(10 * time.Second)
		settle(reads)
	}
	assert.EqualValues(t, 3, b.people.reads.Load())
	b.cluster.answer(http.StatusOK)
	b.clock.Step(10 * time.Second)
	settle(7)
	stop()
	running.Wait()
	require.Len(t, lines, 2, "only transitions are logged: %v", lines)
	assert.Contains(t, lines[0], "Cannot read signing keys")
	assert.Contains(t, lines[1], "can be read again")
}
