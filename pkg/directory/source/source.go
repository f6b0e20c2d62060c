// Package source holds what the directories that are reached over the network share: secrets in files, whom to trust,
// and how names compare.
package source

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// MaxLookup ends a look-up whose caller set no earlier deadline.
const MaxLookup = 30 * time.Second

// MaxCandidates is how many entries a directory may hand out for one name, before what it answers is taken for nonsense.
// There is more than one where it takes spellings for equal that are not the same name.
const MaxCandidates = 64

// maxName is the longest name that directory.Directory allows, in bytes.
const maxName = 4096

// Secret is a password or a token. It prints as three dots.
type Secret string

// String hides the secret.
func (Secret) String() string { return "..." }

// GoString hides the secret from %#v too.
func (Secret) GoString() string { return "..." }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte("..."), nil }

// ReadSecret reads a file with a secret, without the newline at its end. It is read each time it is needed, so that a
// new secret counts without a restart.
func ReadSecret(path string) (Secret, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("a secret cannot be read: %w", err)
	}
	content = bytes.TrimSuffix(bytes.TrimSuffix(content, []byte("\n")), []byte("\r"))
	if len(content) == 0 {
		return "", fmt.Errorf("the file %s holds no secret: write one into it", path)
	}
	return Secret(content), nil
}

// TLS trusts the authorities in caFile (PEM), or those of the host when it is empty. A serverName that is not empty is
// the name that the server's certificate must have, instead of the one that is dialled.
func TLS(caFile, serverName string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if caFile == "" {
		return config, nil
	}
	content, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("caFile cannot be read: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("caFile %s holds no certificate in PEM form: put the directory's authority into it", caFile)
	}
	return config, nil
}

// CheckName refuses what no directory can hold; the error is an UnknownError.
func CheckName(name string) error {
	switch {
	case name == "":
		return &directory.UnknownError{Why: "an empty name is nobody's"}
	case len(name) > maxName:
		return &directory.UnknownError{Why: fmt.Sprintf("the name is longer than %d bytes", maxName)}
	case !utf8.ValidString(name):
		return &directory.UnknownError{Why: "the name is no valid UTF-8"}
	}
	return nil
}

// Same compares what a directory holds with the name that was asked for: byte for byte, or without regard to case.
func Same(held, name string, caseInsensitive bool) bool {
	return held == name || caseInsensitive && slices.EqualFunc([]rune(held), []rune(name), sameButCase)
}

// sameButCase takes letters for the same that are alike in either case. Those that are in one case only are others: there are
// some, such as the sign of Kelvin, that directories and strings.EqualFold take for a letter which looks the same.
func sameButCase(a, b rune) bool {
	return unicode.ToLower(a) == unicode.ToLower(b) && unicode.ToUpper(a) == unicode.ToUpper(b)
}
