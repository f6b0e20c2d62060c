package token

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTokensDoNotLeak prints everything that holds a token in every way that a program prints.
func TestTokensDoNotLeak(t *testing.T) {
	token := makeServiceAccountToken().sign()
	parsed, refusal := parseCompact(token)
	require.Nil(t, refusal)
	holders := map[string]any{
		"bearer":      newBearer(token),
		"cache entry": &cacheEntry{token: newBearer(token)},
		"parsed":      parsed,
	}
	for name, holder := range holders {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := func(_, args string) { out.WriteString(args) }
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X"} {
				fmt.Fprintf(&out, verb, holder)
			}
			funcr.New(log, funcr.Options{}).Info("message", "holder", holder)
			funcr.NewJSON(func(line string) { out.WriteString(line) }, funcr.Options{}).Info("message", "holder", holder)
			_ = json.NewEncoder(&out).Encode(holder)
			assert.NotContains(t, out.String(), token[:40])
			assert.NotContains(t, out.String(), fmt.Sprintf("%x", token[:40]))
		})
	}
}
