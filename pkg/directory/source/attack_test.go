package source

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Another issuer may have let somebody in under a name that a directory without regard to case finds for this one.
func TestS16_LettersThatLookAlikeAreNotAnotherCase(t *testing.T) {
	for _, alike := range []string{"\u212aate", "ka\u017fte", "\uff4bate", "k\u0430te", "kate ", "kate\u200b", "ka\u0308te"} {
		for _, held := range []string{"kate", "KATE", "kaste", "käte"} {
			assert.False(t, Same(held, alike, true), "%q is not %q", alike, held)
			assert.False(t, Same(alike, held, true), "%q is not %q", held, alike)
		}
	}
	assert.False(t, Same("i", "\u0130", true))
	assert.False(t, Same("I", "\u0131", true))
	for _, name := range []string{"kate", "KATE", "Kate"} {
		assert.True(t, Same("kAtE", name, true), name)
	}
	assert.True(t, Same("Jörg Müller", "JÖRG MÜLLER", true))
	assert.False(t, Same("kate", "Kate", false))
}
