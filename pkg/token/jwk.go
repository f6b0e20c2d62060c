package token

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync/atomic"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// maxKeys bounds how many signatures a token without a key id can cause to be tried.
	maxKeys = 64
	// minRSABits is the least that RFC 7518 section 3.3 allows; maxRSABits bounds the work of one check.
	minRSABits, maxRSABits = 2048, 8192
)

// methods are all algorithms that any issuer may use (RFC 7518 section 3.1). What is not here,
// "none" and every HMAC above all, cannot be reached by any header.
var methods = map[string]jwt.SigningMethod{
	"RS256": jwt.SigningMethodRS256, "RS384": jwt.SigningMethodRS384, "RS512": jwt.SigningMethodRS512,
	"ES256": jwt.SigningMethodES256, "ES384": jwt.SigningMethodES384, "ES512": jwt.SigningMethodES512,
	"PS256": jwt.SigningMethodPS256, "PS384": jwt.SigningMethodPS384, "PS512": jwt.SigningMethodPS512,
}

var (
	rsaAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	allAlgorithms = append([]string{"ES256", "ES384", "ES512"}, rsaAlgorithms...)
)

// key is one public key of an issuer. It lives as long as the issuer publishes it: a key set that is
// read again keeps the object, so that what was verified with it stays verified.
type key struct {
	id         string
	public     crypto.PublicKey
	algorithms []string
	// withdrawn is set once, when the issuer no longer publishes the key.
	withdrawn atomic.Bool
}

func (k *key) equal(other *key) bool {
	public, ok := k.public.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.id == other.id && public.Equal(other.public) && slices.Equal(k.algorithms, other.algorithms)
}

// verifies reports whether the key made the token's signature. The algorithm must have been checked.
func (k *key) verifies(t *compact) bool {
	return methods[t.header.Algorithm].Verify(t.signed, t.signature, k.public) == nil
}

type jwk struct {
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	N         string `json:"n"`
	E         string `json:"e"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	Y         string `json:"y"`
}

// parseKeys reads a JSON Web Key Set. Keys that cannot sign what is accepted here are left out, as
// RFC 7517 section 5 asks; a set without any is valid and means that nothing is accepted.
func parseKeys(document []byte) ([]*key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, fmt.Errorf("the key set is no JSON: %w", err)
	}
	if set.Keys == nil {
		return nil, errors.New(`the key set has no "keys"`)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys, more than %d", len(set.Keys), maxKeys)
	}
	var keys []*key
	for _, raw := range set.Keys {
		var k jwk
		if json.Unmarshal(raw, &k) != nil || k.Use != "" && k.Use != "sig" {
			continue
		}
		if parsed, err := k.parse(); err == nil {
			keys = append(keys, parsed)
		}
	}
	return keys, nil
}

func (k *jwk) parse() (*key, error) {
	public, algorithms, err := k.public()
	if err != nil {
		return nil, err
	}
	if k.Algorithm != "" {
		if !slices.Contains(algorithms, k.Algorithm) {
			return nil, fmt.Errorf("a key of type %q cannot sign with %q", k.Type, k.Algorithm)
		}
		algorithms = []string{k.Algorithm}
	}
	return &key{id: k.ID, public: public, algorithms: algorithms}, nil
}

func (k *jwk) public() (crypto.PublicKey, []string, error) {
	switch k.Type {
	case "RSA":
		public, err := k.rsa()
		return public, rsaAlgorithms, err
	case "EC":
		return k.ec()
	}
	return nil, nil, fmt.Errorf("unknown key type %q", k.Type)
}

func (k *jwk) rsa() (*rsa.PublicKey, error) {
	n, errN := unsigned(k.N)
	e, errE := unsigned(k.E)
	if err := errors.Join(errN, errE); err != nil {
		return nil, err
	}
	if n.BitLen() < minRSABits || n.BitLen() > maxRSABits {
		return nil, fmt.Errorf("an RSA modulus of %d bits", n.BitLen())
	}
	if e.BitLen() > 31 || e.Int64() < 3 || e.Bit(0) == 0 {
		return nil, errors.New("an RSA exponent out of range")
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
}

// ec reads a key on a curve; each curve has exactly one algorithm (RFC 7518 section 3.4), which the
// JWT library itself does not check.
func (k *jwk) ec() (*ecdsa.PublicKey, []string, error) {
	curve, algorithm := curveOf(k.Curve)
	if curve == nil {
		return nil, nil, fmt.Errorf("unknown curve %q", k.Curve)
	}
	x, errX := base64.RawURLEncoding.DecodeString(k.X)
	y, errY := base64.RawURLEncoding.DecodeString(k.Y)
	if err := errors.Join(errX, errY); err != nil {
		return nil, nil, err
	}
	size := (curve.Params().BitSize + 7) / 8
	if len(x) != size || len(y) != size {
		return nil, nil, errors.New("coordinates of a wrong length")
	}
	point := bytes.Join([][]byte{{4}, x, y}, nil)
	public, err := ecdsa.ParseUncompressedPublicKey(curve, point)
	return public, []string{algorithm}, err
}

func curveOf(name string) (elliptic.Curve, string) {
	switch name {
	case "P-256":
		return elliptic.P256(), "ES256"
	case "P-384":
		return elliptic.P384(), "ES384"
	case "P-521":
		return elliptic.P521(), "ES512"
	}
	return nil, ""
}

func unsigned(encoded string) (*big.Int, error) {
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	return new(big.Int).SetBytes(data), nil
}
