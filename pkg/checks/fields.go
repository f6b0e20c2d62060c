package checks

import (
	"errors"
	"fmt"
	"strings"
)

// eachElement stands for "[*]" among the steps of a fieldPath.
const eachElement = "[*]"

// fieldPath is a parsed path such as .spec.approvers[*].input.
type fieldPath []string

// parseFieldPath reads the grammar that the CheckKind's schema allows: .spec, then names and [*].
func parseFieldPath(text string) (fieldPath, error) {
	rest, ok := strings.CutPrefix(text, ".spec")
	if !ok || rest == "" {
		return nil, fmt.Errorf("the field %q does not lie below .spec; write it as .spec.field", text)
	}
	path := fieldPath{"spec"}
	for rest != "" {
		step, after, err := nextStep(rest)
		if err != nil {
			return nil, fmt.Errorf("the field %q cannot be used: %w", text, err)
		}
		path, rest = append(path, step), after
	}
	return path, nil
}

func nextStep(rest string) (step, after string, err error) {
	if after, ok := strings.CutPrefix(rest, eachElement); ok {
		return eachElement, after, nil
	}
	name, ok := strings.CutPrefix(rest, ".")
	if !ok {
		return "", "", errors.New("after a name comes a dot or [*]")
	}
	if end := strings.IndexAny(name, ".["); end >= 0 {
		name, after = name[:end], name[end:]
	}
	if name == "" {
		return "", "", errors.New("a name is empty")
	}
	return name, after, nil
}

// hasElements tells whether the path goes through lists, so that it names more than one field.
func (p fieldPath) hasElements() bool {
	for _, step := range p {
		if step == eachElement {
			return true
		}
	}
	return false
}

// String is the path as it is written in a CheckKind.
func (p fieldPath) String() string {
	var b strings.Builder
	for _, step := range p {
		if step != eachElement {
			b.WriteByte('.')
		}
		b.WriteString(step)
	}
	return b.String()
}

// set puts value where the path says, and makes the objects on the way. It replaces what was there.
func (p fieldPath) set(root map[string]any, value any) error {
	at := root
	for _, step := range p[:len(p)-1] {
		if at[step] == nil {
			at[step] = map[string]any{}
		}
		next, ok := at[step].(map[string]any)
		if !ok {
			return fmt.Errorf("the field %s cannot be set, because %s is no object in the template", p, step)
		}
		at = next
	}
	at[p[len(p)-1]] = value
	return nil
}

// replace returns node with every value at the path replaced by what edit returns; where the object has another shape
// than the path, it is left alone. Objects and lists are changed in place.
func (p fieldPath) replace(node any, edit func(any) any) any {
	if len(p) == 0 {
		return edit(node)
	}
	switch at := node.(type) {
	case map[string]any:
		if value, ok := at[p[0]]; ok {
			at[p[0]] = p[1:].replace(value, edit)
		}
	case []any:
		if p[0] == eachElement {
			for i, value := range at {
				at[i] = p[1:].replace(value, edit)
			}
		}
	}
	return node
}

// remove returns node without the values at the path. [*] at the end empties the list.
func (p fieldPath) remove(node any) any {
	switch at := node.(type) {
	case map[string]any:
		p.removeFromObject(at)
	case []any:
		if p[0] != eachElement {
			return node
		}
		if len(p) == 1 {
			return []any{}
		}
		for i, value := range at {
			at[i] = p[1:].remove(value)
		}
	}
	return node
}

func (p fieldPath) removeFromObject(at map[string]any) {
	value, ok := at[p[0]]
	switch {
	case !ok:
	case len(p) == 1:
		delete(at, p[0])
	default:
		at[p[0]] = p[1:].remove(value)
	}
}
