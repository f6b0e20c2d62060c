package operation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDescribe(t *testing.T) {
	tests := map[string]struct {
		operation Operation
		want      string
	}{
		"write":             {Operation{Class: Write, Method: "PUT", Path: mustParse(t, "/v2/app/manifests/1")}, "Write (PUT /v2/app/manifests/1)"},
		"read":              {Operation{Class: Read, Method: "GET", Path: mustParse(t, "/v2/")}, "Read (GET /v2/)"},
		"not HTTP":          {Operation{Class: Write}, "Write"},
		"zero":              {Operation{}, "Write"},
		"unknown class":     {Operation{Class: "Execute\x1b[2J"}, "Write"},
		"unknown path":      {Operation{Class: Read, Method: "GET"}, "Read (GET any path)"},
		"unknown method":    {Operation{Class: Read, Path: mustParse(t, "/a")}, "Read (any method /a)"},
		"escapes stay":      {Operation{Class: Write, Method: "GET", Path: mustParse(t, "/%E2%80%AEx%2Fy")}, "Write (GET /%E2%80%AEx%2Fy)"},
		"drawing in method": {Operation{Class: Write, Method: "G\x1b[31m\n\u202e\""}, `Write (G\x1b[31m\n\u202e\" any path)`},
		"long path":         {Operation{Class: Write, Method: "GET", Path: mustParse(t, "/"+strings.Repeat("a", 300))}, "Write (GET /" + strings.Repeat("a", 252) + "...)"},
		"longest path":      {Operation{Class: Write, Method: "GET", Path: mustParse(t, "/"+strings.Repeat("a", 255))}, "Write (GET /" + strings.Repeat("a", 255) + ")"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, tc.operation.Describe())
		})
	}
	t.Run("long method is cut and stays ASCII", func(t *testing.T) {
		got := Operation{Method: strings.Repeat("é", 5000)}.Describe()
		assert.Less(t, len(got), 300)
		assert.NotContains(t, got, "é")
	})
}

func TestClassValid(t *testing.T) {
	assert.True(t, Read.Valid())
	assert.True(t, Write.Valid())
	assert.False(t, Class("").Valid())
	assert.False(t, Class("read").Valid())
}
