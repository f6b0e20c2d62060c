package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/webhook/certificates/resources"
)

// Keys of the Secret. The current pair has those of every TLS Secret.
const (
	keyAuthority    = "ca.crt"
	keyPrevious     = "previous-ca.crt"
	keyTrustedSince = "next-trusted-since"
	prefixNext      = "next-"
)

// pair is a certificate with its key and the authority that signed it, which signs nothing else.
type pair struct {
	cert, key, authority []byte // PEM
	serving              *tls.Certificate
}

// material is what the Secret says.
type material struct {
	// current is served; nil if there is none that can be.
	current *pair
	// next is going to be served; nil outside a rotation.
	next *pair
	// previous is the authority of what was served before.
	previous []byte
	// trustedSince is when the API server was seen to trust next; zero if it was not.
	trustedSince time.Time
}

// read never fails: what cannot be used counts as absent and is made anew.
func read(data map[string][]byte, host string, now time.Time) *material {
	m := &material{previous: data[keyPrevious]}
	m.current = readPair(data, "", host, now)
	m.next = readPair(data, prefixNext, host, now)
	if since, err := time.Parse(time.RFC3339, string(data[keyTrustedSince])); err == nil {
		m.trustedSince = since
	}
	return m
}

// readPair is nil if there is no pair that can be used.
func readPair(data map[string][]byte, prefix, host string, now time.Time) *pair {
	p := &pair{
		cert: data[prefix+corev1.TLSCertKey], key: data[prefix+corev1.TLSPrivateKeyKey], authority: data[prefix+keyAuthority],
	}
	serving, err := tls.X509KeyPair(p.cert, p.key)
	p.serving = &serving
	if err != nil || !p.isAccepted(host, now) {
		return nil
	}
	return p
}

// isAccepted asks what a client would, save whether the certificate is valid yet: another replica's clock may be ahead.
func (p *pair) isAccepted(host string, now time.Time) bool {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(p.authority) || !now.Before(p.expires()) {
		return false
	}
	_, err := p.serving.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: p.expires()})
	return err == nil
}

func (p *pair) write(data map[string][]byte, prefix string) {
	data[prefix+corev1.TLSCertKey], data[prefix+corev1.TLSPrivateKeyKey], data[prefix+keyAuthority] = p.cert, p.key, p.authority
}

// expires is the end of the certificate, and so of its authority.
func (p *pair) expires() time.Time { return p.serving.Leaf.NotAfter }

// issue makes a new pair with an authority of its own.
func issue(ctx context.Context, service, namespace string, notAfter time.Time) (*pair, error) {
	key, cert, authority, err := resources.CreateCerts(ctx, service, namespace, notAfter)
	if err != nil {
		return nil, fmt.Errorf("cannot make a serving certificate for the webhooks: %w", err)
	}
	serving, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cannot use the serving certificate that was just made: %w", err)
	}
	return &pair{cert: cert, key: key, authority: authority, serving: &serving}, nil
}

// bundle is what the API server has to trust.
func (m *material) bundle() []byte {
	var all [][]byte
	for _, p := range []*pair{m.current, m.next} {
		if p != nil {
			all = append(all, bytes.TrimSpace(p.authority))
		}
	}
	if len(m.previous) > 0 {
		all = append(all, bytes.TrimSpace(m.previous))
	}
	return append(bytes.Join(all, []byte("\n")), '\n')
}

// promote ends a rotation.
func (m *material) promote() {
	m.previous = m.current.authority
	m.current, m.next, m.trustedSince = m.next, nil, time.Time{}
}

// write puts the material into the Secret's data, whose other keys it leaves.
func (m *material) write(data map[string][]byte) map[string][]byte {
	data = maps.Clone(data)
	if data == nil {
		data = map[string][]byte{}
	}
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, keyAuthority} {
		delete(data, prefixNext+key)
	}
	delete(data, keyPrevious)
	delete(data, keyTrustedSince)
	m.current.write(data, "")
	if m.next != nil {
		m.next.write(data, prefixNext)
	}
	if len(m.previous) > 0 {
		data[keyPrevious] = m.previous
	}
	if !m.trustedSince.IsZero() {
		data[keyTrustedSince] = []byte(m.trustedSince.UTC().Format(time.RFC3339))
	}
	return data
}
