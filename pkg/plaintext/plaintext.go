// Package plaintext shows text that somebody else chose, so that it can be read but cannot draw: on a terminal, in a
// log viewer or in an error body. It is pure.
package plaintext

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks is how many combining marks may stand on one letter. Languages need up to four; more are used to draw over
// the lines around.
const maxMarks = 4

// ellipsis stands where Line and Quote cut.
const ellipsis = "..."

// Line returns s as one line of at most max runes. What does not print is written as an escape of Go (\n, \x1b, \u202e):
// control characters and with them ANSI sequences, bidirectional and other format characters, blanks other than the
// space, letters that look like blanks, piled-up marks, bytes that are not UTF-8. A longer text ends with "...", and is
// never cut inside a rune or an escape. A max below the three runes of "..." is taken as three.
func Line(s string, max int) string {
	if clean(s, max) {
		return s
	}
	return shown(s, max, false)
}

// Quote is Line between double quotes, with double quotes inside escaped: the form for words of somebody else within a
// sentence of ours. The quotes are not counted in max.
func Quote(s string, max int) string {
	return `"` + shown(s, max, true) + `"`
}

// clean finds the usual text, printable ASCII, without building anything.
func clean(s string, max int) bool {
	if len(s) > max {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func shown(s string, max int, quote bool) string {
	max = maxRunes(max)
	var out strings.Builder
	runes, cut, marks := 0, 0, 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		marks = countMarks(marks, r)
		text := escape(s[i:i+size], r, marks, quote)
		runes += utf8.RuneCountInString(text)
		if runes > max {
			return out.String()[:cut] + ellipsis
		}
		out.WriteString(text)
		if runes <= max-len(ellipsis) {
			cut = out.Len()
		}
		i += size
	}
	return out.String()
}

func maxRunes(max int) int {
	if max < len(ellipsis) {
		return len(ellipsis)
	}
	return max
}

func countMarks(before int, r rune) int {
	if unicode.Is(unicode.M, r) {
		return before + 1
	}
	return 0
}

func escape(raw string, r rune, marks int, quote bool) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return `\x` + strconv.FormatUint(uint64(raw[0]), 16)
	case quote && r == '"':
		return `\"`
	case !unicode.IsPrint(r) || looksBlank(r) || marks > maxMarks:
		return strings.Trim(strconv.QuoteRuneToASCII(r), "'")
	}
	return raw
}

// looksBlank lists the letters and symbols that Unicode calls printable although nothing is seen of them.
func looksBlank(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800':
		return true
	}
	return false
}
