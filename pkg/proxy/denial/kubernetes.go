package denial

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

// causeReason marks the cause that carries our own reason, so that programs need not read the message.
const causeReason metav1.CauseType = "CountersignReason"

// kubernetes is the error of the Kubernetes API; kubectl prints its message.
func (d *Denial) kubernetes() []byte {
	code := StatusCode(d.Reason)
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Message:  d.sentence(),
		Reason:   statusReason(code),
		Code:     int32(code),
		Details:  &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: causeReason, Message: d.Reason}}},
	}
	if d.Name != "" {
		status.Details.Name, status.Details.Kind, status.Details.Group = d.Name, "connectors", connectorsv1alpha1.GroupVersion.Group
	}
	if d.RetryAfter > 0 {
		status.Details.RetryAfterSeconds = int32(d.retrySeconds())
	}
	return encode(status)
}

func statusReason(code int) metav1.StatusReason {
	switch code {
	case http.StatusBadRequest:
		return metav1.StatusReasonBadRequest
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusGatewayTimeout:
		return metav1.StatusReasonTimeout
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	}
	return metav1.StatusReasonInternalError
}
