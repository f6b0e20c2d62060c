package admit

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// refuse makes the error that ends an admission. message is one sentence for people.
func refuse(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
	if len(causes) > 0 {
		status.Details = &metav1.StatusDetails{Causes: causes}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// Forbidden says that the caller may not do this (403).
func Forbidden(message string) error {
	return refuse(http.StatusForbidden, metav1.StatusReasonForbidden, message)
}

// Because is Forbidden with one of the reasons that verdicts have, for programs to read from details.causes.
func Because(reason, message string) error {
	return refuse(http.StatusForbidden, metav1.StatusReasonForbidden, message,
		metav1.StatusCause{Type: metav1.CauseType(reason), Message: message})
}

// Invalid says that a field of the object cannot be accepted (422).
func Invalid(field, message string) error {
	return refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, field+": "+message,
		metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: message})
}

// Conflict says that something changed while the object was admitted (409): trying again helps.
func Conflict(message string) error {
	return refuse(http.StatusConflict, metav1.StatusReasonConflict, message)
}

// TooMany says that a limit is reached (429). It gives no time after which clients repeat by themselves.
func TooMany(message string) error {
	return refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, message)
}

// Unavailable says that what is needed to decide could not be looked up (503). The cause goes to the log, not to the
// caller, who may have no right to read it.
func Unavailable(message string, cause error) error { return &unavailable{message, cause} }

type unavailable struct {
	message string
	cause   error
}

func (u *unavailable) Error() string { return u.message }

func (u *unavailable) Unwrap() error { return u.cause }

// response puts an error into an admission response. Whatever was not meant for the caller is told to the log.
func response(ctx context.Context, err error) admission.Response {
	var meant *apierrors.StatusError
	var lacking *unavailable
	switch {
	case errors.As(err, &lacking):
		ctrl.LoggerFrom(ctx).Error(lacking.cause, "an admission could not be decided", "message", lacking.message)
		errors.As(refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, lacking.message), &meant)
	case errors.As(err, &meant):
	default:
		ctrl.LoggerFrom(ctx).Error(err, "an admission failed")
		errors.As(refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			"the object could not be admitted because of an error in Countersign: its log says more"), &meant)
	}
	status := meant.ErrStatus
	return admission.Response{AdmissionResponse: admissionResponse(false, &status)}
}
