package ldap

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	ldapv3 "github.com/go-ldap/ldap/v3"

	"github.com/AlaudaDevops/countersign/pkg/directory/source"
)

// maxRead is how many bytes the server may send for one look-up, or while it logs us in.
const maxRead = 1 << 20

// session is a connection on which we are logged in.
type session struct {
	*ldapv3.Conn
	wire *wire
	// spoiled sessions hold something unfinished, and are not used again.
	spoiled  bool
	idleFrom time.Time
}

// cut ends whatever happens on the connection, at once.
func (s *session) cut() { _ = s.wire.Close() }

func (s *session) allow(bytes int64) { s.wire.left.Store(bytes) }

// tooLong tells that the server sent more than was allowed. The library may say only that the connection is closed.
func (s *session) tooLong() bool { return s.wire.left.Load() < 0 }

// close is not Conn.Close alone, which would wait for a server that takes nothing any more.
func (s *session) close() {
	s.cut()
	_ = s.Conn.Close()
}

// wire is a connection that stops reading after a number of bytes, because the library reads whatever length the server
// announces.
type wire struct {
	net.Conn
	left atomic.Int64
}

var errTooLong = errors.New("the directory sends more than a look-up needs")

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if w.left.Add(-int64(n)) < 0 {
		return 0, errTooLong
	}
	return n, err
}

// dialer opens sessions.
type dialer struct {
	config  *Config
	address string
	tls     *tls.Config // nil without TLS
}

func newDialer(c *Config) (dialer, error) {
	server, err := url.Parse(c.URL)
	if err != nil {
		return dialer{}, err
	}
	port := server.Port()
	if port == "" {
		port = map[string]string{"ldap": ldapv3.DefaultLdapPort, "ldaps": ldapv3.DefaultLdapsPort}[server.Scheme]
	}
	d := dialer{config: c, address: net.JoinHostPort(server.Hostname(), port)}
	if server.Scheme == "ldap" && !c.StartTLS {
		return d, nil
	}
	name := c.ServerName
	if name == "" {
		name = server.Hostname()
	}
	d.tls, err = source.TLS(c.CAFile, name)
	return d, err
}

func (d *dialer) open(ctx context.Context) (*session, error) {
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", d.address)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case err != nil:
		return nil, source.Unreachable("the directory cannot be reached: %s", err)
	}
	s := &session{wire: &wire{Conn: connection}}
	s.allow(maxRead)
	stop := context.AfterFunc(ctx, s.cut)
	defer stop()
	if err := d.begin(ctx, s); err != nil {
		return nil, err
	}
	if err := d.bind(s); err != nil {
		s.close()
		if s.tooLong() {
			return nil, errTooLong
		}
		return nil, err
	}
	return s, nil
}

// begin reaches the point where LDAP is spoken in the way that was configured. It closes the connection if it fails.
func (d *dialer) begin(ctx context.Context, s *session) error {
	if d.tls == nil || d.config.StartTLS {
		s.Conn = ldapv3.NewConn(s.wire, false)
		s.Start()
		return d.startTLS(s)
	}
	secure := tls.Client(s.wire, d.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		s.cut()
		return untrusted(err)
	}
	s.Conn = ldapv3.NewConn(secure, true)
	s.Start()
	return nil
}

func (d *dialer) startTLS(s *session) error {
	if !d.config.StartTLS {
		return nil
	}
	err := s.StartTLS(d.tls)
	var result *ldapv3.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &result) && result.ResultCode < ldapv3.ErrorNetwork:
		err = source.Mend("the directory refuses StartTLS (code %d): let it speak TLS, or use ldaps://", result.ResultCode)
	default:
		err = untrusted(err)
	}
	s.close()
	return err
}

func untrusted(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return source.Unreachable("there is no trusted connection to the directory: check caFile, serverName and that the server speaks TLS: %s", err)
}

// bind logs in. The library refuses an empty password, which a server would take for an anonymous login.
func (d *dialer) bind(s *session) error {
	if d.config.BindDN == "" {
		return nil
	}
	password, err := source.ReadSecret(d.config.PasswordFile)
	if err != nil {
		return source.Mend("passwordFile: %s", err)
	}
	err = s.Bind(d.config.BindDN, string(password))
	if ldapv3.IsErrorAnyOf(err, ldapv3.LDAPResultInvalidCredentials, ldapv3.LDAPResultInvalidDNSyntax, ldapv3.LDAPResultNoSuchObject) {
		return source.Mend("the directory does not accept our login: correct bindDN and the content of passwordFile")
	}
	return err
}
