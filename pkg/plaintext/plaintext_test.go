package plaintext

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestLine(t *testing.T) {
	tests := map[string]struct {
		give string
		max  int
		want string
	}{
		"plain text stays":              {"promote 1.4.2", 64, "promote 1.4.2"},
		"other scripts stay":            {"发布 1.4.2 für Kunden", 64, "发布 1.4.2 für Kunden"},
		"line breaks":                   {"ok\nApproved by owner", 64, `ok\nApproved by owner`},
		"carriage return":               {"no\ryes", 64, `no\ryes`},
		"ANSI colour":                   {"\x1b[32mok\x1b[0m", 64, `\x1b[32mok\x1b[0m`},
		"C1 control sequence":           {"a\u009b2Jb", 64, `a\u009b2Jb`},
		"right-to-left override":        {"a\u202etxt.exe", 64, `a\u202etxt.exe`},
		"isolate":                       {"\u2066a\u2069", 64, `\u2066a\u2069`},
		"zero width":                    {"adm\u200bin", 64, `adm\u200bin`},
		"no-break space":                {"a\u00a0b", 64, `a\u00a0b`},
		"filler looks blank":            {"a\u3164b", 64, `a\u3164b`},
		"broken UTF-8":                  {"a\xffb", 64, `a\xffb`},
		"replacement character as such": {"a\ufffdb", 64, "a\ufffdb"},
		"accents stay":                  {"e\u0301", 64, "e\u0301"},
		"piled-up marks do not":         {"e" + strings.Repeat("\u0301", 5), 64, "e" + strings.Repeat("\u0301", 4) + `\u0301`},
		"cut":                           {"0123456789", 8, "01234..."},
		"exactly as long":               {"01234567", 8, "01234567"},
		"cut between runes":             {"ääääääääää", 8, "äääää..."},
		"cut before an escape":          {"0123\x1b56789", 8, "0123..."},
		"empty":                         {"", 8, ""},
		"no room at all":                {"abcdef", 0, "..."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, Line(test.give, test.max))
		})
	}
}

func TestQuote(t *testing.T) {
	assert.Equal(t, `"say \"yes\" \x1b"`, Quote("say \"yes\" \x1b", 64))
	assert.Equal(t, `"01234..."`, Quote("0123456789", 8))
}

func TestLineDoesNotAllocateForPlainText(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = Line("system:serviceaccount:dev:builder", 256) }))
}

func FuzzLine(f *testing.F) {
	f.Add("promote \x1b[1m \u202e \xff", 12)
	f.Fuzz(func(t *testing.T, s string, max int) {
		max %= 4096
		got := Line(s, max)
		assert.True(t, utf8.ValidString(got))
		assert.LessOrEqual(t, utf8.RuneCountInString(got), maxRunes(max))
		assert.NotContains(t, strings.Map(keepDrawing, got), "x")
	})
}

// keepDrawing maps what could draw to x and drops the rest.
func keepDrawing(r rune) rune {
	if !unicode.IsPrint(r) {
		return 'x'
	}
	return -1
}
