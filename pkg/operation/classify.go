package operation

import "slices"

// The connector classes that have a table of their own. Every other name, known or not, is classified as Any.
const (
	Git        = "git"
	OCI        = "oci"
	Harbor     = "harbor"
	Kubernetes = "k8s"
	Any        = "any"
)

// verdict is what a built-in table says. What it calls unknown is a Write, and the only thing that a connector's owner
// may lower to a Read.
type verdict uint8

const (
	verdictUnknown verdict = iota
	verdictRead
	verdictWrite
)

// table is what is built in about one connector class.
type table struct {
	verdict func(*Request) verdict
	// source finds what a write reads besides, such as the repository that a blob is mounted from. found with a zero Path
	// means that it reads something which the request does not show.
	source func(*Request) (path Path, found bool, err error)
	// streams tells which reads stay reads when the connection is upgraded.
	streams func(*Request) bool
}

var (
	gitTable        = &table{verdict: gitVerdict, source: noSource, streams: noStreams}
	ociTable        = &table{verdict: registryVerdict, source: mountSource, streams: noStreams}
	harborTable     = &table{verdict: harborVerdict, source: harborSource, streams: noStreams}
	kubernetesTable = &table{verdict: kubernetesVerdict, source: noSource, streams: kubernetesStreams}
	anyTable        = &table{verdict: anyVerdict, source: noSource, streams: noStreams}
)

func tableOf(class string) *table {
	switch class {
	case Git:
		return gitTable
	case OCI:
		return ociTable
	case Harbor:
		return harborTable
	case Kubernetes:
		return kubernetesTable
	}
	return anyTable
}

// Override is one entry of a connector's own operations list.
//
// A Write (or a class that is not known) raises what it may match. A Read lowers what it surely matches, and only where
// the built-in table says nothing; where both match, Write wins.
type Override struct {
	Class Class
	HTTP  HTTPMatch
}

// Classifier classifies the requests to one connector. The zero Classifier is one of class Any without overrides.
type Classifier struct {
	table     *table
	overrides []Override
}

// NewClassifier takes the connector's class name and its own operations, whose order means nothing. It keeps the slice.
func NewClassifier(class string, overrides ...Override) Classifier {
	return Classifier{table: tableOf(class), overrides: overrides}
}

// Classify says what the request does: one operation, and a second one where a write reads from elsewhere (a blob mount
// is a Write of its target and a Read of its source). Every operation must be allowed for the request to pass.
//
// The error is always ErrBadRequest: the request cannot be judged and is to be refused with 400.
func (c Classifier) Classify(r Request) ([]Operation, error) {
	if r.MethodOverride {
		return nil, errMethodOverride
	}
	if c.table == nil {
		c.table = anyTable
	}
	operations := []Operation{c.operation(&r)}
	source, found, err := c.table.source(&r)
	if err != nil {
		return nil, err
	}
	if found {
		operations = append(operations, c.sourceOperation(source))
	}
	return operations, nil
}

func (c Classifier) operation(r *Request) Operation {
	o := Operation{Class: Write, Method: r.Method, Path: r.Path}
	v := c.judge(r)
	if c.isRaised(o) {
		return o
	}
	if v == verdictRead || v == verdictUnknown && c.isLowered(o) {
		o.Class = Read
	}
	return o
}

// judge applies what holds for every class before and after the table.
func (c Classifier) judge(r *Request) verdict {
	if !r.Path.Known() || r.Path.EncodedSlash() {
		return verdictWrite
	}
	v := c.table.verdict(r)
	if r.Upgrade && (v != verdictRead || !c.table.streams(r)) {
		return verdictWrite
	}
	return v
}

// sourceOperation is the read of a source that the request names, or of one that it does not show.
func (c Classifier) sourceOperation(source Path) Operation {
	if source.Known() {
		return c.operation(&Request{Method: methodGet, Path: source})
	}
	o := Operation{Class: Read, Method: methodGet}
	if c.isRaised(o) {
		o.Class = Write
	}
	return o
}

func (c Classifier) isRaised(o Operation) bool {
	return slices.ContainsFunc(c.overrides, func(override Override) bool {
		return override.Class != Read && override.HTTP.match(o)
	})
}

func (c Classifier) isLowered(o Operation) bool {
	return slices.ContainsFunc(c.overrides, func(override Override) bool {
		return override.Class == Read && override.HTTP.includes(o)
	})
}

// Methods as RFC 9110 spells them. Methods are case-sensitive: "get" is not GET but something unknown.
const (
	methodGet     = "GET"
	methodHead    = "HEAD"
	methodOptions = "OPTIONS"
	methodPost    = "POST"
	methodPut     = "PUT"
	methodPatch   = "PATCH"
	methodDelete  = "DELETE"
)

func isFetch(method string) bool { return method == methodGet || method == methodHead }

func noSource(*Request) (Path, bool, error) { return Path{}, false, nil }

func noStreams(*Request) bool { return false }

func anyVerdict(r *Request) verdict {
	if isFetch(r.Method) || r.Method == methodOptions {
		return verdictRead
	}
	return verdictUnknown
}
