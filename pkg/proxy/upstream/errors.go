package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// Error is why a tool could not be used.
type Error struct {
	// Reason is ToolUnreachable, ToolTimeout, ToolRefused or NotReady.
	Reason string
	// Detail is one sentence for the caller: no credential, no address of the tool.
	Detail string

	cause error
}

// Error returns the detail.
func (e *Error) Error() string { return e.Detail }

// Unwrap returns what went wrong underneath, for errors.Is. It may hold a tool's answer: it is not to be logged.
func (e *Error) Unwrap() error { return e.cause }

func notReady(detail string, cause error) *Error {
	return &Error{Reason: approvalv1alpha1.ReasonNotReady, Detail: detail, cause: cause}
}

func refused(detail string) *Error {
	return &Error{Reason: approvalv1alpha1.ReasonToolRefused, Detail: detail}
}

// ErrDeniedNetwork is in the chain of an Error when a tool's name resolves into a network that the proxy must not reach.
var ErrDeniedNetwork = errors.New("the address lies in a denied network")

// Explain turns the error of a round trip into an Error. The texts of the net and tls packages hold addresses, so only
// their kind is told.
func Explain(err error) *Error {
	var known *Error
	var timeout net.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Reason: approvalv1alpha1.ReasonToolTimeout, Detail: "the tool did not answer in time; try again later, and tell the connector's owners if it stays so", cause: err}
	}
	return &Error{Reason: approvalv1alpha1.ReasonToolUnreachable, Detail: "the tool could not be reached: " + kind(err), cause: err}
}

func kind(err error) string {
	var unresolved *net.DNSError
	var certificate *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.Is(err, ErrDeniedNetwork):
		return "its address lies in a network that the proxy must not reach; tell the connector's owners"
	case errors.As(err, &unresolved):
		return "its host name is not known; tell the connector's owners"
	case errors.As(err, &certificate):
		return "its certificate is not trusted; the connector's owners can name the right authority by caCertSecretRef"
	case errors.As(err, &noTLS), errors.As(err, &alert):
		return "no TLS connection could be agreed on; tell the connector's owners"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at its address; try again later"
	}
	return "the connection failed; try again later"
}
