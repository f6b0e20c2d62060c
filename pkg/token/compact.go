package token

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
)

// maxTokenBytes bounds the work that an unknown token can cause. People with some hundred groups
// have tokens of about 16 KiB.
const maxTokenBytes = 64 << 10

// maxNumericDate is the last second of the year 9999; larger dates overflow in other readers.
const maxNumericDate = 253402300799

var segments = base64.RawURLEncoding.Strict()

// compact is a token in compact serialization (RFC 7515 section 3.1), read but not verified.
//
// The segments are read here and not by the JWT library's parser, because that one does not refuse
// critical header parameters (RFC 7515 section 4.1.11) and matches claim names case-insensitively.
type compact struct {
	header    header
	claims    registered
	payload   []byte
	signed    string // what the signature is over
	signature []byte
}

type header struct {
	Algorithm string          `json:"alg"`
	KeyID     string          `json:"kid"`
	Critical  json.RawMessage `json:"crit"`
}

// registered holds the claims that every issuer means alike (RFC 7519 section 4.1), and what the
// cluster adds, so that one pass reads a service account's token.
type registered struct {
	Issuer     string       `json:"iss"`
	Subject    looseString  `json:"sub"`
	Audience   stringList   `json:"aud"`
	Expiry     numericDate  `json:"exp"`
	NotBefore  numericDate  `json:"nbf"`
	IssuedAt   numericDate  `json:"iat"`
	ID         looseString  `json:"jti"`
	Kubernetes *boundClaims `json:"kubernetes.io"`
}

func parseCompact(token string) (*compact, *Error) {
	if len(token) > maxTokenBytes {
		return nil, refuse("the token is longer than %d bytes; ask its issuer for fewer claims", maxTokenBytes)
	}
	head, rest, ok := strings.Cut(token, ".")
	if !ok {
		return nil, errGarbled("it has no payload", nil)
	}
	body, signature, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(signature, ".") {
		return nil, errGarbled("it has not three parts", nil)
	}
	t := &compact{signed: token[:len(head)+1+len(body)]}
	if err := t.readHeader(head); err != nil {
		return nil, errGarbled("unreadable header", err)
	}
	if err := t.readPayload(body); err != nil {
		return nil, errGarbled("unreadable payload", err)
	}
	var err error
	if t.signature, err = segments.DecodeString(signature); err != nil {
		return nil, errGarbled("unreadable signature", err)
	}
	return t, nil
}

func (t *compact) readHeader(segment string) error {
	data, err := segments.DecodeString(segment)
	if err != nil {
		return err
	}
	if err := unmarshalObject(data, &t.header); err != nil {
		return err
	}
	if t.header.Critical != nil {
		return errors.New("critical header parameters are not supported")
	}
	return nil
}

func (t *compact) readPayload(segment string) (err error) {
	if t.payload, err = segments.DecodeString(segment); err != nil {
		return err
	}
	// Otherwise two names that differ only in broken bytes would become one.
	if !utf8.Valid(t.payload) {
		return errors.New("not UTF-8")
	}
	if err := unmarshalObject(t.payload, &t.claims); err != nil {
		return err
	}
	// The same short form that the API server takes for Google's own.
	if t.claims.Issuer == "accounts.google.com" {
		t.claims.Issuer = "https://accounts.google.com"
	}
	return nil
}

// checkTimes refuses a token outside of its time. Clocks may differ by the leeway at the beginning
// only: nobody gains from being early, but an expired token is expired.
func (t *compact) checkTimes(now time.Time) *Error {
	switch {
	case t.claims.Expiry.IsZero():
		return refuse("the token has no expiry (exp), and tokens without one are not accepted; get one that expires")
	case !now.Before(t.claims.Expiry.Time):
		return errExpired(t.claims.Expiry.Time)
	case now.Before(t.validFrom()):
		return errNotYetValid(t.validFrom().Add(leeway))
	}
	return nil
}

// validFrom is the first instant at which the token is accepted, leeway included.
func (t *compact) validFrom() time.Time {
	from := t.claims.NotBefore.Time
	if t.claims.IssuedAt.After(from) {
		from = t.claims.IssuedAt.Time
	}
	if from.IsZero() {
		return from
	}
	return from.Add(-leeway)
}

// unmarshalObject reads a JSON object with case-sensitive names; the last of equal names counts
// (RFC 7519 section 4 allows that).
func unmarshalObject(data []byte, into any) error {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return errors.New("not a JSON object")
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// looseString is a string; any other type reads as absent, as the API server treats jti.
type looseString string

func (s *looseString) UnmarshalJSON(data []byte) error {
	if data[0] != '"' {
		*s = ""
		return nil
	}
	return unquote(data, (*string)(s))
}

// stringList is one string or a list of strings.
type stringList []string

func (l *stringList) UnmarshalJSON(data []byte) error {
	element := data
	if data[0] == '[' {
		element = bytes.TrimSpace(data[1 : len(data)-1])
	}
	// A list of one is what nearly every token has as its audience.
	quote := []byte(`"`)
	if !bytes.HasPrefix(element, quote) || !bytes.HasSuffix(element, quote) || bytes.Count(element, quote) != 2 {
		return json.Unmarshal(data, (*[]string)(l))
	}
	*l = stringList{""}
	return unquote(element, &(*l)[0])
}

// unquote reads a JSON string that the decoder has found to be one; most need no second decoder.
func unquote(data []byte, into *string) error {
	if bytes.IndexByte(data, '\\') >= 0 {
		return json.Unmarshal(data, into)
	}
	*into = string(data[1 : len(data)-1])
	return nil
}

// numericDate is in seconds since 1970 (RFC 7519 section 2); zero if absent.
type numericDate struct{ time.Time }

func (d *numericDate) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		d.Time = time.Time{}
		return nil
	}
	seconds, err := strconv.ParseFloat(string(data), 64)
	if err != nil || seconds < 0 || seconds > maxNumericDate {
		return errors.New("a date is not a number of seconds since 1970")
	}
	whole, fraction := math.Modf(seconds)
	d.Time = time.Unix(int64(whole), int64(fraction*float64(time.Second)))
	return nil
}
