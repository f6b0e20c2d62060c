package checks

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func sampleContext() *approvalv1alpha1.CheckContext {
	return &approvalv1alpha1.CheckContext{
		Object:   approvalv1alpha1.ObjectReference{Name: "prod-harbor", Namespace: "prod"},
		Subject:  approvalv1alpha1.Subject{Name: "$(object.name)"},
		Resource: &approvalv1alpha1.ObjectReference{Kind: "PipelineRun", Name: "build-7", Namespace: "dev"},
	}
}

func TestExpand(t *testing.T) {
	long := strings.Repeat("ä", maxExpanded)
	cases := map[string]struct {
		text, want string
		context    func(*approvalv1alpha1.CheckContext)
	}{
		"every value": {
			text: "$(resource.kind) $(resource.namespace)/$(resource.name) wants $(object.namespace)/$(object.name)",
			want: "PipelineRun dev/build-7 wants prod/prod-harbor",
		},
		"once only":                   {text: "for $(subject.name)", want: "for $(object.name)"},
		"nobody knows it":             {text: "$(object.uid) $(secret.name) $(HOME) $x", want: "$(object.uid) $(secret.name) $(HOME) $x"},
		"a nested one stays":          {text: "$($(object.name))", want: "$(prod-harbor)"},
		"no run":                      {text: "run <$(resource.name)>", want: "run <>", context: func(c *approvalv1alpha1.CheckContext) { c.Resource = nil }},
		"a long name is cut at runes": {text: "$(subject.name)", want: strings.Repeat("ä", 126) + "…", context: func(c *approvalv1alpha1.CheckContext) { c.Subject.Name = long }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			context := sampleContext()
			if c.context != nil {
				c.context(context)
			}
			assert.Equal(t, c.want, expand(c.text, placeholders(context)))
		})
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("$(object.name) and $(subject.name)", "$(object.name)")
	f.Add("$($(object.name)", "x")
	f.Add("$(resource.kind", "\xff\xfe")
	f.Fuzz(func(t *testing.T, text, chosen string) {
		values := map[string]string{"$(subject.name)": chosen}
		got := expand(text, values)
		parts := strings.Split(text, "$(subject.name)")
		assert.Equal(t, strings.Join(parts, cut(chosen, maxExpanded)), got, "one pass over the rule's text and nothing else")
		if utf8.ValidString(chosen) {
			assert.True(t, utf8.ValidString(cut(chosen, maxExpanded)))
		}
		assert.LessOrEqual(t, len(cut(chosen, maxExpanded)), max(maxExpanded, 0))
	})
}
