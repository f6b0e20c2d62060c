package issuer

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

const (
	keyBits    = 2048
	pemKeyType = "PRIVATE KEY"
)

// Keys are an issuer's RSA keys, kept in one file so that a server, a minter and a rotation may be
// different processes. The first key signs; all are published. Safe for concurrent use.
type Keys struct {
	path string

	mu     sync.Mutex
	raw    []byte
	parsed []key
}

// key is one signing key with its identifier.
type key struct {
	id      string
	private *rsa.PrivateKey
}

// OpenKeys returns the keys kept in the file and creates the file with one key when it is missing.
func OpenKeys(path string) (*Keys, error) {
	keys := &Keys{path: path}
	_, err := keys.load()
	if errors.Is(err, fs.ErrNotExist) {
		return keys, keys.Rotate(0)
	}
	return keys, err
}

// Rotate makes a new key the signing key and keeps the newest `keep` earlier keys published, so
// that tokens they signed stay valid; with 0 all earlier tokens die.
func (k *Keys) Rotate(keep int) error {
	current, err := k.load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	private, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return err
	}
	kept := current[:min(max(keep, 0), len(current))]
	return k.store(append([]key{{private: private}}, kept...))
}

func (k *Keys) store(keys []key) error {
	var out bytes.Buffer
	for _, one := range keys {
		der, err := x509.MarshalPKCS8PrivateKey(one.private)
		if err != nil {
			return err
		}
		if err := pem.Encode(&out, &pem.Block{Type: pemKeyType, Bytes: der}); err != nil {
			return err
		}
	}
	return replaceFile(k.path, out.Bytes())
}

// replaceFile writes beside the file and renames, because another process may be reading it.
func replaceFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// load reads the file each time, another process may have rotated, but parses only what is new.
func (k *Keys) load() ([]key, error) {
	raw, err := os.ReadFile(k.path)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if bytes.Equal(raw, k.raw) {
		return k.parsed, nil
	}
	parsed, err := parseKeys(raw)
	if err != nil {
		return nil, fmt.Errorf("the issuer's key file %s cannot be read; delete it to get a new key: %w", k.path, err)
	}
	k.raw, k.parsed = raw, parsed
	return parsed, nil
}

func parseKeys(raw []byte) ([]key, error) {
	var keys []key
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, err
		}
		private, ok := parsed.(*rsa.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("it holds a %T where an RSA key is needed", parsed)
		}
		keys = append(keys, key{id: keyID(&private.PublicKey), private: private})
	}
	if len(keys) == 0 {
		return nil, errors.New("it holds no key")
	}
	return keys, nil
}

// keyID derives the identifier from the key itself, so that all processes agree on it.
func keyID(public *rsa.PublicKey) string {
	sum := sha256.Sum256(x509.MarshalPKCS1PublicKey(public))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// jwk is one public key of a JSON Web Key Set (RFC 7517, RSA members of RFC 7518 §6.3).
type jwk struct {
	KeyType   string `json:"kty"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	Modulus   string `json:"n"`
	Exponent  string `json:"e"`
}

func (k key) public() jwk {
	exponent := binary.BigEndian.AppendUint32(nil, uint32(k.private.E))
	return jwk{
		KeyType:   "RSA",
		Use:       "sig",
		Algorithm: signingMethod.Alg(),
		KeyID:     k.id,
		Modulus:   base64.RawURLEncoding.EncodeToString(k.private.N.Bytes()),
		Exponent:  base64.RawURLEncoding.EncodeToString(bytes.TrimLeft(exponent, "\x00")),
	}
}
