package token

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

func benchVerifier(b *testing.B) *Verifier {
	b.Helper()
	f := newFakeIssuer(b, publish("one", rsaOne()))
	v, err := New(f.cluster(), nil, Options{})
	if err != nil {
		b.Fatal(err)
	}
	return v
}

func freshToken(jti string) string {
	now := clock.RealClock{}.Now()
	return makeServiceAccountToken().claim("iat", now.Unix()).claim("nbf", now.Unix()).
		claim("exp", now.Add(time.Hour).Unix()).claim("jti", jti).sign()
}

// BenchmarkKnownToken is the look-up of a token seen before; the goal is 1 µs.
func BenchmarkKnownToken(b *testing.B) {
	v, token := benchVerifier(b), freshToken("known")
	if _, err := v.Authenticate(context.Background(), token); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Authenticate(context.Background(), token); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKnownTokenParallel(b *testing.B) {
	v, token := benchVerifier(b), freshToken("known")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := v.Authenticate(context.Background(), token); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkFirstSightRS256 prints how much longer the first sight of a token takes than the bare check
// of its signature, in turns in the same run; the goal is 1.6.
// Medians, so that a busy machine does not decide.
func BenchmarkFirstSightRS256(b *testing.B) {
	v := benchVerifier(b)
	tokens := make([]string, 256)
	for i := range tokens {
		tokens[i] = freshToken(fmt.Sprint("jti-", i))
	}
	if _, err := v.Authenticate(context.Background(), tokens[0]); err != nil {
		b.Fatal(err)
	}
	digest := sha256.Sum256([]byte("message"))
	signature, err := rsa.SignPKCS1v15(nil, rsaOne(), crypto.SHA256, digest[:])
	if err != nil {
		b.Fatal(err)
	}
	var bare, sight []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		if _, err := v.firstSight(context.Background(), tokens[len(sight)%len(tokens)]); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if err := rsa.VerifyPKCS1v15(&rsaOne().PublicKey, crypto.SHA256, digest[:], signature); err != nil {
			b.Fatal(err)
		}
		sight, bare = append(sight, middle.Sub(start)), append(bare, time.Since(middle))
	}
	b.ReportMetric(median(sight), "ns/first-sight")
	b.ReportMetric(median(bare), "ns/bare")
	b.ReportMetric(median(sight)/median(bare), "ratio")
}

func median(of []time.Duration) float64 {
	slices.Sort(of)
	return float64(of[len(of)/2].Nanoseconds())
}
