package attribution

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

func TestS18_AnswersOfADirectoryCannotDraw(t *testing.T) {
	w := newWorld(t, makeCheck(), &runRef).node(runRef, alice)
	w.people.known[alice] = directory.Person{DisplayName: "Alice\x1b[2J\u202e", UID: "u\x1b[2J"}
	got := w.reconcile().Status
	for _, text := range []string{got.Message, got.Conditions[0].Message, w.event()} {
		assert.Contains(t, text, "Alice")
		assert.NotContains(t, text, "\x1b")
		assert.NotContains(t, text, "\u202e")
	}
	assert.Equal(t, alice, got.Author.Username)
}

func TestS18_NamesOfAuthorsCannotDraw(t *testing.T) {
	const draws = "eve\x1b[2J\u202e"
	got := newWorld(t, makeCheck(), &runRef).node(runRef, draws).reconcile().Status
	assert.NotContains(t, got.Message, "\x1b")
	assert.NotContains(t, got.Message, "\u202e")
	assert.Equal(t, draws, got.Author.Username, "the name itself is kept exactly")
}
