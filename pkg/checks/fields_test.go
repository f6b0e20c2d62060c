package checks

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseFieldPath(t *testing.T) {
	cases := map[string]struct {
		text string
		want fieldPath
		err  string
	}{
		"a field":                {text: ".spec.request", want: fieldPath{"spec", "request"}},
		"a field of elements":    {text: ".spec.approvers[*].input", want: fieldPath{"spec", "approvers", "[*]", "input"}},
		"elements of elements":   {text: ".spec.a[*][*]", want: fieldPath{"spec", "a", "[*]", "[*]"}},
		"the spec itself":        {text: ".spec", err: "below .spec"},
		"another field":          {text: ".status.state", err: "below .spec"},
		"a name that only looks": {text: ".specs.a", err: "a dot or [*]"},
		"an index":               {text: ".spec.a[0]", err: "a dot or [*]"},
		"an empty name":          {text: ".spec..a", err: "empty"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseFieldPath(c.text)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.text, got.String())
		})
	}
}

func TestRemove(t *testing.T) {
	cases := map[string]struct{ path, before, after string }{
		"a field":                {".spec.a", `{"spec":{"a":1,"b":2}}`, `{"spec":{"b":2}}`},
		"a field of elements":    {".spec.l[*].a", `{"spec":{"l":[{"a":1,"b":2},{"a":3}]}}`, `{"spec":{"l":[{"b":2},{}]}}`},
		"all elements":           {".spec.l[*]", `{"spec":{"l":[1,2]}}`, `{"spec":{"l":[]}}`},
		"elements of no list":    {".spec.l[*].a", `{"spec":{"l":{"a":1}}}`, `{"spec":{"l":{"a":1}}}`},
		"a field of a text":      {".spec.a.b", `{"spec":{"a":"b"}}`, `{"spec":{"a":"b"}}`},
		"a field of a list":      {".spec.l.a", `{"spec":{"l":[{"a":1}]}}`, `{"spec":{"l":[{"a":1}]}}`},
		"an absent field":        {".spec.x.y", `{"spec":{"a":1}}`, `{"spec":{"a":1}}`},
		"elements of a null":     {".spec.l[*]", `{"spec":{"l":null}}`, `{"spec":{"l":null}}`},
		"mixed elements survive": {".spec.l[*].a", `{"spec":{"l":[1,{"a":1},null]}}`, `{"spec":{"l":[1,{},null]}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path, err := parseFieldPath(c.path)
			require.NoError(t, err)
			before := parse(t, c.before)
			path.remove(before.Object)
			assert.Equal(t, parse(t, c.after), before)
		})
	}
}

func TestSetRefusesToReplaceAText(t *testing.T) {
	path, err := parseFieldPath(".spec.a.b")
	require.NoError(t, err)
	assert.ErrorContains(t, path.set(map[string]any{"spec": map[string]any{"a": "text"}}, 1), "a is no object")
}
