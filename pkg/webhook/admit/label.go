package admit

import (
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// hashMark stands before the hash in a shortened label value. A value that has it by itself is shortened too, so that
// no two texts share a label.
const hashMark = "_h_"

// maxShown is how much of a text is shown in a shortened value.
const maxShown = 32

var (
	noLabel     = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)
	lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
)

// LabelValue is the text itself if it can be a label value, and otherwise a readable beginning with a hash.
func LabelValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 && !strings.Contains(text, hashMark) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	shown := noLabel.ReplaceAllString(text, "-")
	shown = strings.Trim(shown[:min(len(shown), maxShown)], "-_.")
	if shown == "" {
		shown = "x"
	}
	return shown + hashMark + lowerBase32.EncodeToString(sum[:])[:26]
}
