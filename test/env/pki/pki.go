// Package pki is the certificate authority of the test cluster: one key, certificates for servers
// and for client users. Nothing here is meant for production: keys lie unencrypted on disk.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// caLifetime and leafLifetime outlive every test and any development cluster worth keeping.
	caLifetime   = 10 * 365 * 24 * time.Hour
	leafLifetime = 2 * 365 * 24 * time.Hour
	// backdate forgives a clock that another component reads a moment earlier.
	backdate = time.Hour

	pemCertificate = "CERTIFICATE"
	pemPrivateKey  = "PRIVATE KEY"
)

// CA signs certificates. It is safe for concurrent use.
type CA struct {
	pair KeyPair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// KeyPair is a certificate and its private key, both PEM (PKCS#8 for the key).
type KeyPair struct {
	CertPEM []byte
	KeyPEM  []byte
}

// String hides the key.
func (KeyPair) String() string { return "pki.KeyPair{...}" }

// GoString hides the key from %#v too.
func (p KeyPair) GoString() string { return p.String() }

// TLS returns the pair in the form that crypto/tls takes.
func (p KeyPair) TLS() (tls.Certificate, error) {
	return tls.X509KeyPair(p.CertPEM, p.KeyPEM)
}

// Write stores the pair as <dir>/<name>.crt and <dir>/<name>.key, the key readable by its owner
// only, and returns both paths.
func (p KeyPair) Write(dir, name string) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := os.WriteFile(keyFile, p.KeyPEM, 0o600); err != nil {
		return "", "", err
	}
	return certFile, keyFile, os.WriteFile(certFile, p.CertPEM, 0o644)
}

// NewCA returns a fresh authority with the given common name.
func NewCA(name string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: name}, caLifetime)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	pair, err := sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	return fromPair(pair)
}

// LoadOrCreate returns the authority kept in <dir>/<name>.crt and .key and creates it when neither
// file exists. One file without the other is an error: certificates already issued would not verify.
func LoadOrCreate(dir, name string) (*CA, error) {
	certPEM, certErr := os.ReadFile(filepath.Join(dir, name+".crt"))
	keyPEM, keyErr := os.ReadFile(filepath.Join(dir, name+".key"))
	if errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		return create(dir, name)
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, fmt.Errorf("the authority %s in %s cannot be read; delete both of its files to get a new one: %w", name, dir, err)
	}
	return fromPair(KeyPair{CertPEM: certPEM, KeyPEM: keyPEM})
}

func create(dir, name string) (*CA, error) {
	ca, err := NewCA(name)
	if err != nil {
		return nil, err
	}
	_, _, err = ca.pair.Write(dir, name)
	return ca, err
}

func fromPair(pair KeyPair) (*CA, error) {
	loaded, err := pair.TLS()
	if err != nil {
		return nil, fmt.Errorf("an authority's certificate and key do not belong together; delete both to get new ones: %w", err)
	}
	cert, err := x509.ParseCertificate(loaded.Certificate[0])
	if err != nil {
		return nil, err
	}
	key, ok := loaded.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key of authority %q is a %T; delete it to get an ECDSA key", cert.Subject.CommonName, loaded.PrivateKey)
	}
	return &CA{pair: pair, cert: cert, key: key}, nil
}

// CertPEM returns the authority's own certificate.
func (ca *CA) CertPEM() []byte { return ca.pair.CertPEM }

// Pool returns a pool that trusts this authority alone.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	return pool
}

// IssueServer returns a serving certificate for the names, each a DNS name or an IP address.
func (ca *CA) IssueServer(names ...string) (KeyPair, error) {
	return ca.issueServer(leafLifetime, names)
}

// IssueExpiredServer returns a serving certificate whose time was over half an hour ago.
func (ca *CA) IssueExpiredServer(names ...string) (KeyPair, error) {
	return ca.issueServer(-backdate/2, names)
}

func (ca *CA) issueServer(lifetime time.Duration, names []string) (KeyPair, error) {
	if len(names) == 0 {
		return KeyPair{}, errors.New("a serving certificate needs a name; pass at least one DNS name or IP address")
	}
	template, err := newTemplate(pkix.Name{CommonName: names[0]}, lifetime)
	if err != nil {
		return KeyPair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	addNames(template, names)
	return ca.issue(template)
}

// IssueClient returns a client certificate: Kubernetes takes user as the user name and groups as
// its groups.
func (ca *CA) IssueClient(user string, groups ...string) (KeyPair, error) {
	template, err := newTemplate(pkix.Name{CommonName: user, Organization: groups}, leafLifetime)
	if err != nil {
		return KeyPair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return ca.issue(template)
}

func (ca *CA) issue(template *x509.Certificate) (KeyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return KeyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return sign(template, ca.cert, key, ca.key)
}

func addNames(template *x509.Certificate, names []string) {
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, name)
	}
}

func newTemplate(subject pkix.Name, lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(lifetime),
	}, nil
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (KeyPair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return KeyPair{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return KeyPair{}, err
	}
	return KeyPair{
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der}),
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: keyDER}),
	}, nil
}
