package operation

import "strconv"

// Class says whether an operation changes anything, as the connector sees it.
type Class string

const (
	// Read changes nothing and reveals nothing that the connector guards as a secret.
	Read Class = "Read"
	// Write is everything else, whatever is unknown included.
	Write Class = "Write"
)

// Valid is false for a class that this release does not know.
func (c Class) Valid() bool { return c == Read || c == Write }

// Operation is one thing that a request does. The zero Operation is an unknown Write.
//
// Objects that are not reached over HTTP have operations too: they leave Method and Path empty.
type Operation struct {
	Class Class
	// Method is as the client sent it; "" is unknown.
	Method string
	// Path is the tool's path, without our prefix; the zero Path is unknown.
	Path Path
}

// maxDescribed bounds method and path in Describe, in bytes each.
const maxDescribed = 256

// IsRead is the only way to be a Read: every other class, known or not, is a Write.
func (o Operation) IsRead() bool { return o.Class == Read }

// Describe is a short text for people, such as "Write (PUT /v2/app/manifests/1)": printable ASCII whatever the client
// sent, and bounded.
func (o Operation) Describe() string {
	class := Write
	if o.IsRead() {
		class = Read
	}
	if o.Method == "" && !o.Path.Known() {
		return string(class)
	}
	return string(class) + " (" + o.describeRequest() + ")"
}

func (o Operation) describeRequest() string {
	method, path := "any method", "any path"
	if o.Method != "" {
		method = printable(o.Method)
	}
	if o.Path.Known() {
		path = printable(o.Path.String())
	}
	return method + " " + path
}

// printable escapes first and cuts then, so nothing is cut inside a rune.
func printable(s string) string {
	const cut = "..."
	quoted := strconv.QuoteToASCII(s[:min(len(s), maxDescribed+1)])
	s = quoted[1 : len(quoted)-1]
	if len(s) > maxDescribed {
		return s[:maxDescribed-len(cut)] + cut
	}
	return s
}
