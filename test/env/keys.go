package env

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
)

// RS256 is what most clusters sign service-account tokens with.
const serviceAccountKeyBits = 2048

func (c *Cluster) caFile() string            { return filepath.Join(c.layout.pki(), "ca.crt") }
func (c *Cluster) clientCAFile() string      { return filepath.Join(c.layout.pki(), "client-ca.crt") }
func (c *Cluster) serviceAccountKey() string { return filepath.Join(c.layout.pki(), "sa.key") }

func (c *Cluster) prepareServiceAccountKey() error {
	if exists(c.serviceAccountKey()) {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, serviceAccountKeyBits)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(c.serviceAccountKey(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}
