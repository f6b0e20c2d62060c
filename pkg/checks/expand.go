package checks

import (
	"regexp"
	"unicode/utf8"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// maxExpanded bounds one filled-in value, in bytes: requesters choose some of them, and a long one must not push the
// rule's own words out of sight or the text over its limit.
const maxExpanded = 256

var placeholder = regexp.MustCompile(`\$\([a-z]+\.[a-z]+\)`)

// placeholders are the values that $(...) may stand for. A value that the question has not, such as the run of a
// person's request, is empty.
func placeholders(c *approvalv1alpha1.CheckContext) map[string]string {
	resource := approvalv1alpha1.ObjectReference{}
	if c.Resource != nil {
		resource = *c.Resource
	}
	return map[string]string{
		"$(object.name)":        c.Object.Name,
		"$(object.namespace)":   c.Object.Namespace,
		"$(subject.name)":       c.Subject.Name,
		"$(resource.kind)":      resource.Kind,
		"$(resource.name)":      resource.Name,
		"$(resource.namespace)": resource.Namespace,
	}
}

// expand fills in values in one pass: a value that looks like a placeholder stays as it is, and so does a placeholder
// that nobody knows.
func expand(text string, values map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		value, ok := values[found]
		if !ok {
			return found
		}
		return cut(value, maxExpanded)
	})
}

// cut shortens text to at most limit bytes without cutting inside a rune, and says so with an ellipsis.
func cut(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// expandFields fills in values in the named string fields of a check and nowhere else.
func expandFields(check map[string]any, fields []fieldPath, values map[string]string) {
	for _, field := range fields {
		field.replace(check, func(value any) any {
			if text, ok := value.(string); ok {
				return expand(text, values)
			}
			return value
		})
	}
}
