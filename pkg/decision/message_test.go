package decision

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatToDoIsSaidOnce(t *testing.T) {
	request := &Request{Namespace: "dev", Name: "rcr-1"}
	for give, want := range map[string]string{
		"it was valid until noon; ask again": "Request dev/rcr-1 ended (Expired), saying: it was valid until noon; ask again.",
		"revoked by owner1":                  "Request dev/rcr-1 ended (Expired), saying: revoked by owner1: ask again if you still need it.",
		"":                                   "Request dev/rcr-1 ended (Expired): ask again if you still need it.",
	} {
		assert.Equal(t, want, endMessage(request, end{reason: "Expired", message: give}))
	}
}
