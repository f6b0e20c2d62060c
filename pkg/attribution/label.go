package attribution

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

const (
	// maxLabel is the longest label value that the API server takes.
	maxLabel = 63
	// hashBytes and hashLength make an encoding unique: 200 bits, so that nobody finds two names with one label.
	hashBytes  = 25
	hashLength = hashBytes * 8 / 5
	// hintLength is what is left for the readable beginning of an encoding: the dot and the hash follow.
	hintLength = maxLabel - 1 - hashLength
)

const hashAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

var hashEncoding = base32.NewEncoding(hashAlphabet).WithPadding(base32.NoPadding)

// LabelValue is a label value for exactly this user name: the name itself where it is a label value, else a readable
// beginning, a dot and a hash of the whole name. No two names share one value: a name that looks like an encoding is
// encoded too, so encodings and names that stand for themselves never meet. The value is for lists and selectors; it is
// not decoded.
func LabelValue(username string) string {
	if isLabelValue(username) && !looksEncoded(username) {
		return username
	}
	sum := sha256.Sum256([]byte(username))
	return hint(username) + "." + hashEncoding.EncodeToString(sum[:hashBytes])
}

// isLabelValue is the rule of the API server: at most 63 letters, digits, dots, dashes and underscores, with a letter or
// a digit at both ends.
func isLabelValue(s string) bool {
	if s == "" {
		return true
	}
	if len(s) > maxLabel || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !alphanumeric(s[i]) && !strings.ContainsRune("-_.", rune(s[i])) {
			return false
		}
	}
	return true
}

// looksEncoded tells that a name ends as encodings do.
func looksEncoded(s string) bool {
	dot := len(s) - hashLength - 1
	return dot >= 0 && s[dot] == '.' && strings.Trim(s[dot+1:], hashAlphabet) == ""
}

// hint is the readable beginning of an encoding. It begins with a letter or a digit, as a label value must.
func hint(username string) string {
	out := make([]byte, 0, hintLength)
	for i := 0; i < len(username) && len(out) < hintLength; i++ {
		switch c := username[i]; {
		case alphanumeric(c):
			out = append(out, c)
		case len(out) > 0 && out[len(out)-1] != '-':
			out = append(out, '-')
		}
	}
	if trimmed := strings.TrimRight(string(out), "-"); trimmed != "" {
		return trimmed
	}
	return "user"
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
