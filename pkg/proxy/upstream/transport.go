package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Options bound what a tool may cost. Every field has a default.
type Options struct {
	// SecretTTL is how long a Secret that was read is used; at most MaxSecretTTL.
	SecretTTL time.Duration
	// SecretTimeout bounds one reading of a connector's Secrets.
	SecretTimeout time.Duration
	// DialTimeout, TLSTimeout and HeaderTimeout bound connecting, the TLS handshake, and the wait for the tool's
	// answer to begin after the request was sent.
	DialTimeout, TLSTimeout, HeaderTimeout time.Duration
	// IdleTimeout closes connections that nobody uses.
	IdleTimeout time.Duration
	// TokenTimeout bounds a registry's token exchange.
	TokenTimeout time.Duration
	// MaxIdleConnections is how many connections to one tool are kept for reuse.
	MaxIdleConnections int
	// DeniedNetworks are never dialed, whatever a tool's name resolves to.
	DeniedNetworks []netip.Prefix
}

// MaxSecretTTL is the longest that a changed or deleted Secret is still used.
const MaxSecretTTL = 60 * time.Second

// failureTTL is how long a failure to read a Secret is remembered, so that it costs the API server no request each.
const failureTTL = 5 * time.Second

// DefaultOptions returns the defaults. Link-local networks are denied: cloud providers hand out credentials there.
func DefaultOptions() Options {
	return Options{
		SecretTTL:          MaxSecretTTL,
		SecretTimeout:      5 * time.Second,
		DialTimeout:        5 * time.Second,
		TLSTimeout:         5 * time.Second,
		HeaderTimeout:      60 * time.Second,
		IdleTimeout:        90 * time.Second,
		TokenTimeout:       15 * time.Second,
		MaxIdleConnections: 256,
		DeniedNetworks:     []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10")},
	}
}

// newTransport speaks HTTP/1.1 only: every kind of upgrade works on it, and bodies stream without a second flow control.
// It knows no proxy of its own, because a tool is reached at its own address or not at all.
func (o *Options) newTransport(caCert []byte) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caCert != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(caCert) {
			return nil, errors.New("it holds no certificate in PEM form")
		}
	}
	dialer := &net.Dialer{Timeout: o.DialTimeout, KeepAlive: 30 * time.Second, Control: o.checkAddress}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    o.TLSTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		IdleConnTimeout:        o.IdleTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxIdleConnsPerHost:    o.MaxIdleConnections,
		MaxResponseHeaderBytes: 1 << 20,
		DisableCompression:     true,
		Protocols:              protocols,
	}, nil
}

// checkAddress sees the address after resolution, so no name can lead around it.
func (o *Options) checkAddress(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	for _, denied := range o.DeniedNetworks {
		if denied.Contains(target.Addr().Unmap().WithZone("")) {
			return ErrDeniedNetwork
		}
	}
	return nil
}
