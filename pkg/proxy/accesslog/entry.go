// Package accesslog writes one JSON line for every request to the proxy. The format is stable: fields are only added.
//
// Every line has these fields, in this order:
//
//	time           when the request arrived, RFC 3339 in UTC with microseconds
//	id             the request's id, also in the response header Countersign-Request-Id
//	verdict        allow, deny, or cut (a stream that was allowed first)
//	reason         the reason of the verdict, one of the words of conditions and events; of a request that was allowed
//	               and passed on, how the tool failed if it did (ToolTimeout, ...); Own for the proxy's own endpoints
//	connector      namespace/name; empty for requests to the proxy itself
//	subject        the exact user name; empty if the caller is not known
//	jti            the token's own identifier (RFC 7519 section 4.1.7), if it has one
//	podUID         the UID of the pod that the token is bound to
//	context        the run that an approval is reused for: group, kind, namespace, name, uid; or null
//	request        namespace/name of the request for approval that the verdict speaks of
//	rules          the rules that apply: name, uid, generation; never null
//	operation      Read or Write; empty if the request could not be classified
//	method         the HTTP method
//	path           the tool's path as it was forwarded, or without a connector the path as it was sent; never the query
//	source         what a write reads besides, as a path of the tool: the blob that is mounted; else empty
//	status         the HTTP status that the caller got; 0 if the caller was gone before there was one
//	contentDigest  sha256 of the body that the tool got, for writes; for registry reads what the registry says of its answer
//	bytesIn        bytes of the body that the tool got
//	bytesOut       bytes of the body that the caller got
//	durationMs     from arrival to the last byte, in milliseconds
//
// A line never holds a token, a credential, a query or a header.
package accesslog

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// Limits in bytes of what the caller chose.
const (
	maxMethod = 32
	maxPath   = 4096
	maxText   = 4096
)

// ReasonOwn is the reason of requests for the proxy's own endpoints.
const ReasonOwn = "Own"

// Entry is one line. The zero value of a field is written as "", 0, [] or null.
type Entry struct {
	Time    time.Time
	ID      string
	Verdict string
	Reason  string
	// Namespace and Name are the connector's.
	Namespace, Name string
	Subject         string
	JTI             string
	PodUID          string
	Context         *Object
	// RequestNamespace and RequestName are those of the request for approval.
	RequestNamespace, RequestName string
	Rules                         []Rule
	Operation                     string
	Method                        string
	Path                          string
	Source                        string
	Status                        int
	ContentDigest                 string
	BytesIn, BytesOut             int64
	Duration                      time.Duration
}

// Object is a run.
type Object struct {
	Group, Kind, Namespace, Name, UID string
}

// Rule is a rule as it applied.
type Rule struct {
	Name, UID  string
	Generation int64
}

// timeFormat has a fixed width, so lines of one proxy sort as text.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// Append adds the entry and a line break to b.
func (e *Entry) Append(b []byte) []byte {
	b = append(b, `{"time":"`...)
	b = e.Time.UTC().AppendFormat(b, timeFormat)
	b = append(b, '"')
	b = appendField(b, "id", e.ID, maxText)
	b = appendField(b, "verdict", e.Verdict, maxText)
	b = appendField(b, "reason", e.Reason, maxText)
	b = appendPair(b, "connector", e.Namespace, e.Name)
	b = appendField(b, "subject", e.Subject, maxText)
	b = appendField(b, "jti", e.JTI, maxText)
	b = appendField(b, "podUID", e.PodUID, maxText)
	b = e.Context.append(b)
	b = appendPair(b, "request", e.RequestNamespace, e.RequestName)
	b = appendRules(b, e.Rules)
	b = appendField(b, "operation", e.Operation, maxText)
	b = appendField(b, "method", e.Method, maxMethod)
	b = appendField(b, "path", e.Path, maxPath)
	b = appendField(b, "source", e.Source, maxPath)
	b = appendNumber(b, "status", int64(e.Status))
	b = appendField(b, "contentDigest", e.ContentDigest, maxText)
	b = appendNumber(b, "bytesIn", e.BytesIn)
	b = appendNumber(b, "bytesOut", e.BytesOut)
	b = append(b, `,"durationMs":`...)
	b = strconv.AppendFloat(b, float64(e.Duration.Microseconds())/1000, 'f', 3, 64)
	return append(b, "}\n"...)
}

func (o *Object) append(b []byte) []byte {
	if o == nil {
		return append(b, `,"context":null`...)
	}
	b = append(b, `,"context":{"group":`...)
	b = appendString(b, o.Group, maxText)
	b = appendField(b, "kind", o.Kind, maxText)
	b = appendField(b, "namespace", o.Namespace, maxText)
	b = appendField(b, "name", o.Name, maxText)
	b = appendField(b, "uid", o.UID, maxText)
	return append(b, '}')
}

func appendRules(b []byte, rules []Rule) []byte {
	b = append(b, `,"rules":[`...)
	for i, r := range rules {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendString(b, r.Name, maxText)
		b = appendField(b, "uid", r.UID, maxText)
		b = appendNumber(b, "generation", r.Generation)
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendKey(b []byte, key string) []byte {
	b = append(b, `,"`...)
	b = append(b, key...)
	return append(b, `":`...)
}

func appendField(b []byte, key, value string, max int) []byte {
	return appendString(appendKey(b, key), value, max)
}

func appendNumber(b []byte, key string, value int64) []byte {
	return strconv.AppendInt(appendKey(b, key), value, 10)
}

// appendPair writes namespace/name, or "" without a name.
func appendPair(b []byte, key, namespace, name string) []byte {
	b = appendKey(b, key)
	if name == "" {
		return append(b, `""`...)
	}
	b = append(b, '"')
	b = appendEscaped(b, cut(namespace, maxText))
	b = append(b, '/')
	b = appendEscaped(b, cut(name, maxText))
	return append(b, '"')
}

func appendString(b []byte, s string, max int) []byte {
	b = append(b, '"')
	b = appendEscaped(b, cut(s, max))
	return append(b, '"')
}

// cut shortens a text to at most max bytes, between runes.
func cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

// appendEscaped writes the inside of a JSON string in ASCII: whatever the log is looked at with, it cannot draw.
func appendEscaped(b []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		r, size := utf8.DecodeRuneInString(s[i:])
		b = appendRune(b, r)
		i += size
		start = i
	}
	return append(b, s[start:]...)
}

func appendRune(b []byte, r rune) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(b, '\\', byte(r))
	case r > 0xffff:
		// JSON has escapes for UTF-16 only (RFC 8259 section 7).
		r -= 0x10000
		b = appendUnit(b, 0xd800+(r>>10))
		return appendUnit(b, 0xdc00+(r&0x3ff))
	}
	return appendUnit(b, r)
}

func appendUnit(b []byte, unit rune) []byte {
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', hex[unit>>12&0xf], hex[unit>>8&0xf], hex[unit>>4&0xf], hex[unit&0xf])
}
