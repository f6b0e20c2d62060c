package operation

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDecodings bounds how often one segment is decoded in search of what a second decoder behind the proxy would see.
// Harbor needs two; every further one costs a pass over the text that the caller chose.
const maxDecodings = 3

// Path is a request path after its one parse. It is immutable; copies share the segments.
//
// The zero Path is an unknown path: every pattern may match it, none surely does, and no request for it is a Read.
type Path struct {
	raw      string
	segments []segment
	decoded  []string
	// unsure is the index of the first segment that tools read differently; len(segments) if there is none.
	unsure        int
	encodedSlash  bool
	trailingSlash bool
}

// root has no segments, and its slash is not a trailing one.
var root = Path{raw: "/"}

type segment struct {
	raw     string
	decoded string
	reading reading
}

// reading tells how sure it is that a tool sees the segment as it was decoded here.
type reading uint8

const (
	sure reading = iota
	// ambiguous: some tools would decode it again, or take what follows a semicolon for a parameter and drop it.
	ambiguous
	// slashed: it holds an encoded slash, which some tools take for a separator.
	slashed
)

// Parse splits and decodes the raw (percent-encoded) path of a request, without its query.
//
// It refuses, with an error that is ErrBadRequest, what tools are known to read differently: dot segments and empty
// segments (also encoded, also behind a semicolon), backslashes and control characters (also encoded), escapes that
// are invalid or do not decode to UTF-8, and every byte that RFC 3986 does not allow in a path (brackets pass, as Go sends
// them unescaped). One slash at the end is allowed, "/v2/" is what registry clients ask first; it is no segment.
//
// Three spellings pass but are marked, because well-meant clients use them: an encoded slash (GitLab's project names),
// an escape inside an escape (Harbor's repository names) and a semicolon (Artifactory's properties). See Pattern.Match.
func Parse(rawPath string) (Path, error) {
	p, err := parse(rawPath)
	if err != nil {
		return Path{}, refusal{err.Error()}
	}
	return p, nil
}

func parse(raw string) (Path, error) {
	if !strings.HasPrefix(raw, "/") {
		return Path{}, errors.New("the path does not begin with a slash; send an absolute path")
	}
	if err := checkRaw(raw); err != nil {
		return Path{}, err
	}
	body := raw[1:]
	if body == "" {
		return root, nil
	}
	body, trailing := strings.CutSuffix(body, "/")
	segments := make([]segment, 0, strings.Count(body, "/")+1)
	for text := range strings.SplitSeq(body, "/") {
		s, err := parseSegment(text)
		if err != nil {
			return Path{}, fmt.Errorf("segment %d of the path %w", len(segments)+1, err)
		}
		segments = append(segments, s)
	}
	return assemble(raw, segments, trailing), nil
}

// assemble derives what Path says about all its segments together.
func assemble(raw string, segments []segment, trailing bool) Path {
	p := Path{raw: raw, segments: segments, unsure: len(segments), trailingSlash: trailing}
	p.decoded = make([]string, len(segments))
	for i, s := range segments {
		p.decoded[i] = s.decoded
		if s.reading != sure {
			p.unsure = min(p.unsure, i)
		}
		p.encodedSlash = p.encodedSlash || s.reading == slashed
	}
	return p
}

// checkRaw accepts the bytes that Go's client forwards as they are. Any other would be re-encoded on the way out, and
// the tool would get other bytes than those judged here.
func checkRaw(raw string) error {
	for i := range len(raw) {
		switch c := raw[i]; {
		case c == '\\':
			return errors.New("the path has a backslash; use slashes to separate segments")
		case c < ' ' || c == 0x7f:
			return fmt.Errorf("the path has a control character (0x%02x); leave it out", c)
		case !isPathByte(c):
			return fmt.Errorf("the path has the byte 0x%02x unescaped; percent-encode it", c)
		}
	}
	return nil
}

func isPathByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("/%-._~!$&'()*+,;=:@[]", c) >= 0
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func parseSegment(raw string) (segment, error) {
	decoded, err := url.PathUnescape(raw)
	if err != nil {
		return segment{}, errors.New("has an invalid escape; write a percent sign as %25")
	}
	r, err := judgeReading(decoded)
	if err != nil {
		return segment{}, err
	}
	return segment{raw: raw, decoded: decoded, reading: r}, nil
}

// judgeReading judges a decoded segment under every reading that a tool may have of it.
func judgeReading(decoded string) (reading, error) {
	if err := checkText(decoded); err != nil {
		return sure, err
	}
	r := sure
	if strings.Contains(decoded, ";") {
		r = ambiguous
	}
	if hasEscape(decoded) {
		r = ambiguous
		if err := checkDeeper(decoded); err != nil {
			return sure, err
		}
	}
	if strings.Contains(decoded, "/") {
		r = slashed
	}
	return r, nil
}

func checkDeeper(text string) error {
	for range maxDecodings {
		deeper, err := url.PathUnescape(text)
		if err != nil {
			return errors.New("decodes to an invalid escape; encode it once")
		}
		if err := checkText(deeper); err != nil {
			return err
		}
		if !hasEscape(deeper) {
			return nil
		}
		text = deeper
	}
	return errors.New("is encoded over and over; encode it once")
}

// checkText refuses what would change the path, or draw, in a tool that sees text as (part of) its path.
func checkText(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("does not decode to UTF-8; encode names as UTF-8")
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return errors.New("decodes to a control character; leave it out")
	}
	if strings.Contains(text, `\`) {
		return errors.New("decodes to a backslash; use slashes to separate segments")
	}
	for part := range strings.SplitSeq(text, "/") {
		if err := checkPart(part); err != nil {
			return err
		}
	}
	return nil
}

func checkPart(part string) error {
	// Servlet containers drop ";..." before they resolve dots.
	name, _, _ := strings.Cut(part, ";")
	switch name {
	case "":
		return errors.New("is empty; separate segments with one slash")
	case ".", "..":
		return errors.New("is a dot segment; send the path that it stands for")
	}
	return nil
}

func hasEscape(text string) bool {
	for i := 0; i+2 < len(text); i++ {
		if text[i] == '%' && isHex(text[i+1]) && isHex(text[i+2]) {
			return true
		}
	}
	return false
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// String is the raw path, byte for byte as it was parsed: what is forwarded, and safe to print (printable ASCII only).
func (p Path) String() string { return p.raw }

// Known is false for the zero Path only.
func (p Path) Known() bool { return p.raw != "" }

// Segments are the decoded segments. The slice is shared: do not change it.
func (p Path) Segments() []string { return p.decoded }

// RawSegments are the segments as they were sent.
func (p Path) RawSegments() []string {
	raw := make([]string, len(p.segments))
	for i, s := range p.segments {
		raw[i] = s.raw
	}
	return raw
}

// EncodedSlash tells that a segment holds %2F: every request for such a path is a Write, every pattern may match it.
func (p Path) EncodedSlash() bool { return p.encodedSlash }

// TrailingSlash tells that the path ended with a slash. Patterns do not look at it; some tools' tables do.
func (p Path) TrailingSlash() bool { return p.trailingSlash }

// Exact tells that every tool sees the same segments in this path.
func (p Path) Exact() bool { return p.Known() && p.unsure == len(p.segments) }

// After is the path behind its first n segments ("/" if nothing follows): the tool's path behind the proxy's prefix.
// It is the zero Path and false if there are fewer segments.
func (p Path) After(n int) (Path, bool) {
	if !p.Known() || n < 0 || n > len(p.segments) {
		return Path{}, false
	}
	skipped := 0
	for _, s := range p.segments[:n] {
		skipped += len("/") + len(s.raw)
	}
	if n == len(p.segments) {
		return root, true
	}
	return assemble(p.raw[skipped:], p.segments[n:], p.trailingSlash), true
}

// Equal compares the bytes that were sent.
func (p Path) Equal(other Path) bool { return p.raw == other.raw }

// tail is the i-th segment from the end, counted from 1, and "" if there is none.
func (p Path) tail(i int) string {
	if i > len(p.decoded) {
		return ""
	}
	return p.decoded[len(p.decoded)-i]
}

// isBelow tells whether the path begins with exactly these segments and has at least one more, or the same number.
func (p Path) isBelow(prefix ...string) bool {
	return len(p.decoded) >= len(prefix) && slices.Equal(p.decoded[:len(prefix)], prefix)
}
