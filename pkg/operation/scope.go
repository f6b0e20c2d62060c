package operation

import (
	"fmt"
	"slices"
	"strings"
)

// HTTPMatch selects requests by method and path; an empty list selects all. The zero HTTPMatch is like none at all.
type HTTPMatch struct {
	// Methods are compared without case, because some tools do.
	Methods []string
	Paths   []Pattern
	// Invalid marks a selection that could not be read: it may match everything and surely selects nothing.
	Invalid bool
}

// NewHTTPMatch reads methods and patterns as they stand in an object. With an error comes an HTTPMatch that is Invalid,
// so a caller that only keeps the value still fails closed.
func NewHTTPMatch(methods, paths []string) (HTTPMatch, error) {
	m := HTTPMatch{Methods: methods, Paths: make([]Pattern, 0, len(paths))}
	for _, method := range methods {
		if !isMethod(method) {
			return HTTPMatch{Invalid: true}, fmt.Errorf("%s is no HTTP method; name methods such as PUT, or leave the list out to mean all", quote(method))
		}
	}
	for _, path := range paths {
		pattern, err := ParsePattern(path)
		if err != nil {
			return HTTPMatch{Invalid: true}, err
		}
		m.Paths = append(m.Paths, pattern)
	}
	return m, nil
}

// isMethod is narrower than RFC 9110's token, so that "*" is not taken for a method that nobody sends.
func isMethod(s string) bool {
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && s[i] != '-' && s[i] != '_' {
			return false
		}
	}
	return s != ""
}

func (m *HTTPMatch) isEmpty() bool {
	return m == nil || !m.Invalid && len(m.Methods) == 0 && len(m.Paths) == 0
}

// match may be asked of nil, which matches everything.
func (m *HTTPMatch) match(o Operation) bool {
	if m.isEmpty() || m.Invalid {
		return true
	}
	methodMatches := o.Method == "" || len(m.Methods) == 0 || containsMethod(m.Methods, o.Method)
	return methodMatches && m.matchPath(o.Path)
}

func (m *HTTPMatch) matchPath(path Path) bool {
	for i := range m.Paths {
		if m.Paths[i].Match(path) {
			return true
		}
	}
	return len(m.Paths) == 0
}

// includes is match for grants: it must be sure.
func (m *HTTPMatch) includes(o Operation) bool {
	if m.isEmpty() {
		return true
	}
	methodIncluded := len(m.Methods) == 0 || containsMethod(m.Methods, o.Method)
	return !m.Invalid && methodIncluded && m.includesPath(o.Path)
}

func (m *HTTPMatch) includesPath(path Path) bool {
	for i := range m.Paths {
		if m.Paths[i].Includes(path) {
			return true
		}
	}
	return len(m.Paths) == 0
}

func (m *HTTPMatch) overlaps(other *HTTPMatch) bool {
	if m.isEmpty() || other.isEmpty() || m.Invalid || other.Invalid {
		return true
	}
	return m.sharesMethod(other) && m.sharesPath(other)
}

func (m *HTTPMatch) sharesMethod(other *HTTPMatch) bool {
	return len(m.Methods) == 0 || len(other.Methods) == 0 ||
		slices.ContainsFunc(m.Methods, func(method string) bool { return containsMethod(other.Methods, method) })
}

func (m *HTTPMatch) sharesPath(other *HTTPMatch) bool {
	if len(m.Paths) == 0 {
		return true
	}
	return slices.ContainsFunc(m.Paths, other.overlapsPath)
}

func (m *HTTPMatch) overlapsPath(pattern Pattern) bool {
	return len(m.Paths) == 0 || slices.ContainsFunc(m.Paths, pattern.Overlaps)
}

func containsMethod(methods []string, method string) bool {
	for _, m := range methods {
		if strings.EqualFold(m, method) {
			return true
		}
	}
	return false
}

// When is the condition of a rule. All given parts must match; with none given it is every operation that is not a
// read. A When with HTTP alone is about operations of every class.
type When struct {
	Operations []Class
	HTTP       *HTTPMatch
	// Invalid marks a condition that cannot be evaluated: it matches.
	Invalid bool
}

// Matches tells whether the rule applies to the operation. It does not allocate.
func (w When) Matches(o Operation) bool {
	if w.Invalid {
		return true
	}
	return classesMatch(w.Operations, w.HTTP, o) && w.HTTP.match(o)
}

// Use is what a request was approved for, with the same parts and defaults as When.
type Use struct {
	Operations []Class
	HTTP       *HTTPMatch
	// Invalid marks a use that cannot be evaluated: it covers nothing, and every rule is asked.
	Invalid bool
}

// Covers tells whether the operation surely lies inside the use. It does not allocate.
func (u Use) Covers(o Operation) bool {
	if u.Invalid || !u.HTTP.includes(o) {
		return false
	}
	if len(u.Operations) == 0 {
		return !u.HTTP.isEmpty() || !o.IsRead()
	}
	return containsClass(u.Operations, o)
}

// Classes are the classes that the use may need: what its subject must be permitted.
func (u Use) Classes() []Class {
	classes := make([]Class, 0, 2)
	for _, class := range []Class{Read, Write} {
		if u.Invalid || classesOverlap(u.Operations, u.HTTP, []Class{class}, nil) {
			classes = append(classes, class)
		}
	}
	return classes
}

// Overlaps tells whether some operation may be both in the use and under the rule: whether a request for this use must
// ask this rule. Unsure is yes.
func Overlaps(w When, u Use) bool {
	if w.Invalid || u.Invalid {
		return true
	}
	return classesOverlap(w.Operations, w.HTTP, u.Operations, u.HTTP) && w.HTTP.overlaps(u.HTTP)
}

// writes is what absent parts stand for.
var writes = []Class{Write}

// effective resolves the default; nil is every class.
func effective(classes []Class, http *HTTPMatch) []Class {
	if len(classes) == 0 && http.isEmpty() {
		return writes
	}
	return classes
}

func classesMatch(classes []Class, http *HTTPMatch, o Operation) bool {
	classes = effective(classes, http)
	return len(classes) == 0 || containsClass(classes, o) || slices.ContainsFunc(classes, isUnknown)
}

func classesOverlap(a []Class, aHTTP *HTTPMatch, b []Class, bHTTP *HTTPMatch) bool {
	a, b = effective(a, aHTTP), effective(b, bHTTP)
	if len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, isUnknown) || slices.ContainsFunc(b, isUnknown) {
		return true
	}
	return slices.ContainsFunc(a, func(class Class) bool { return slices.Contains(b, class) })
}

func isUnknown(c Class) bool { return !c.Valid() }

// containsClass knows two classes only: what is no Read is a Write.
func containsClass(classes []Class, o Operation) bool {
	if o.IsRead() {
		return slices.Contains(classes, Read)
	}
	return slices.Contains(classes, Write)
}
