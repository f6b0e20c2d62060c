package attribution

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestLabelValue(t *testing.T) {
	tests := map[string]struct{ name, want string }{
		"a label value stands for itself":    {"alice", "alice"},
		"so does one of 63 characters":       {strings.Repeat("a", 63), strings.Repeat("a", 63)},
		"so does one with inner punctuation": {"a.b-c_d", "a.b-c_d"},
		"nobody":                             {"", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, LabelValue(test.name))
		})
	}
}

func TestLabelValueOfAnEncodedNameIsReadable(t *testing.T) {
	label := LabelValue("alice@example.com")
	assert.True(t, strings.HasPrefix(label, "alice-example-com."), label)
	assert.Len(t, LabelValue(strings.Repeat("x", 300)), maxLabel)
	assert.True(t, strings.HasPrefix(LabelValue("王小明"), "user."))
}

// awkward are names that labels cannot hold, that look like encodings, or that differ in what labels cannot hold.
func awkward() []string {
	names := []string{
		"", "a:b", "a_b", "a-b", "a.b", "a b", "a  b", "alice", "Alice", "alice ", " alice", "alice-", "alice.", "-", ".", "_", "@",
		"https://issuer.example.com/#sub", "CN=dev,O=corp", "CN=dev, O=corp", "system:serviceaccount:team-a:bot", "kube:admin",
		"王小明", "王小", "müller", "mu\u0308ller", "🙂", "\x00", "\xff", "\xff\xfe", "a\xffb", "a\ufffdb", "\u202ealice", "user", "user.",
		strings.Repeat("x", 63), strings.Repeat("x", 64), strings.Repeat("x", 300), strings.Repeat("x", 300) + "y", strings.Repeat("王", 300),
	}
	// Names that are the encodings of others, and the encodings of those.
	for range 3 {
		for _, name := range names {
			if label := LabelValue(name); label != name {
				names = append(names, label)
			}
		}
	}
	return names
}

func TestLabelValuesNeverMeet(t *testing.T) {
	seen := map[string]string{}
	for _, name := range awkward() {
		label := LabelValue(name)
		assert.Empty(t, validation.IsValidLabelValue(label), "the label of %q", name)
		if other, taken := seen[label]; taken {
			assert.Equal(t, other, name, "both have the label %s", label)
		}
		seen[label] = name
	}
}

func FuzzLabelValue(f *testing.F) {
	names := awkward()
	for i, name := range names {
		f.Add(name, names[(i+1)%len(names)])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		labelA, labelB := LabelValue(a), LabelValue(b)
		for name, label := range map[string]string{a: labelA, b: labelB} {
			if problems := validation.IsValidLabelValue(label); len(problems) > 0 {
				t.Fatalf("%q has the label %q: %v", name, label, problems)
			}
		}
		if (a == b) != (labelA == labelB) {
			t.Fatalf("%q and %q have the labels %q and %q", a, b, labelA, labelB)
		}
		if again := LabelValue(labelA); labelA != a && again == labelA {
			t.Fatalf("the user %q would share the label of %q", labelA, a)
		}
	})
}
