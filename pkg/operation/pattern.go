package operation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// anySegment stands for "*" among a pattern's segments. No parsed segment is empty, so it cannot be mistaken for one.
const anySegment = ""

// maxQuoted bounds what error texts repeat of somebody's input, in bytes.
const maxQuoted = 80

// Pattern is a path pattern: "*" stands for exactly one segment, "**" at the end for any number of them, none included.
// Segments are compared decoded and with case; a trailing slash means nothing, neither in a pattern nor in a path.
//
// The zero Pattern is one that could not be parsed: it may match everything and surely matches nothing.
type Pattern struct {
	text string
	// fixed are the segments that every matching path has, "**" not included.
	fixed []string
	// open tells that "**" follows.
	open bool
}

// ParsePattern reads a pattern as it stands in a rule: a raw path without query, in which "*" and "**" are whole
// segments. A literal star is written %2A. Spellings that tools read differently (%2F, an escape in an escape, a
// semicolon) are refused: paths that hold them are matched by what stands before, so no pattern could name them.
func ParsePattern(s string) (Pattern, error) {
	p, err := parsePattern(s)
	if err != nil {
		return Pattern{}, fmt.Errorf("path pattern %s cannot be used: %w", quote(s), err)
	}
	return p, nil
}

func parsePattern(s string) (Pattern, error) {
	path, err := parse(s)
	if err != nil {
		return Pattern{}, err
	}
	if !path.Exact() {
		return Pattern{}, errors.New(`it has an encoded slash, an escape in an escape or a semicolon; end it with "**" before that segment`)
	}
	p := Pattern{text: s, fixed: make([]string, 0, len(path.segments))}
	for i, segment := range path.segments {
		switch {
		case segment.raw == "**" && i == len(path.segments)-1:
			p.open = true
		case segment.raw == "*":
			p.fixed = append(p.fixed, anySegment)
		case strings.Contains(segment.raw, "*"):
			return Pattern{}, errors.New(`a star is a whole segment, and "**" only the last one; write a literal star as %2A`)
		default:
			p.fixed = append(p.fixed, segment.decoded)
		}
	}
	return p, nil
}

func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.QuoteToASCII(s[:maxQuoted]) + " (cut)"
	}
	return strconv.QuoteToASCII(s)
}

// String is the pattern as it was written; "" for the zero Pattern.
func (p Pattern) String() string { return p.text }

// Valid is false for the zero Pattern only.
func (p Pattern) Valid() bool { return p.text != "" }

// Match tells whether the pattern may match the path: the question of a rule, so unsure is yes. An unknown path and one
// with an encoded slash match every pattern; from the first ambiguous segment on, every pattern matches
// that agrees with what stands before it.
func (p Pattern) Match(path Path) bool {
	if !p.Valid() || !path.Known() || path.encodedSlash {
		return true
	}
	certain := min(path.unsure, len(p.fixed))
	if !agree(p.fixed[:certain], path.decoded) {
		return false
	}
	// A further decoder can only split segments, never join them.
	if path.Exact() {
		return p.fits(len(path.decoded))
	}
	return p.open || len(p.fixed) >= len(path.decoded)
}

// Includes tells whether the pattern surely matches the path, however a tool reads it: the question of a grant, so
// unsure is no. Behind "**" it does not matter how a segment is read.
func (p Pattern) Includes(path Path) bool {
	if !p.Valid() || !path.Known() {
		return false
	}
	certain := path.Exact() || p.open && len(p.fixed) <= path.unsure
	return certain && p.fits(len(path.decoded)) && agree(p.fixed, path.decoded)
}

// Overlaps tells whether some path may match both patterns: unless a fixed segment differs or the lengths exclude it.
func (p Pattern) Overlaps(other Pattern) bool {
	if !p.Valid() || !other.Valid() {
		return true
	}
	return p.reaches(other) && other.reaches(p) && agree(p.fixed, other.fixed)
}

// reaches tells whether the pattern can match a path as long as the other's fixed part.
func (p Pattern) reaches(other Pattern) bool {
	return p.open || len(p.fixed) >= len(other.fixed)
}

// Covers tells whether every path that the other matches is matched by this one too: whether the other is at least as
// narrow. A pattern that could not be parsed covers nothing and is covered by nothing.
func (p Pattern) Covers(other Pattern) bool {
	if !p.Valid() || !other.Valid() {
		return false
	}
	if other.open && !p.open || !p.fits(len(other.fixed)) {
		return false
	}
	for i, want := range p.fixed {
		if want != anySegment && want != other.fixed[i] {
			return false
		}
	}
	return true
}

// Equal compares what the patterns match, not how they were written.
func (p Pattern) Equal(other Pattern) bool {
	return p.Valid() == other.Valid() && p.open == other.open && slices.Equal(p.fixed, other.fixed)
}

func (p Pattern) fits(length int) bool {
	return length == len(p.fixed) || p.open && length > len(p.fixed)
}

// agree compares two lists of segments as far as both go.
func agree(a, b []string) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != anySegment && b[i] != anySegment && a[i] != b[i] {
			return false
		}
	}
	return true
}
