package admit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/AlaudaDevops/countersign/pkg/plaintext"
)

// Timeout bounds one admission. It is less than the timeoutSeconds of the webhook configurations, so that the caller
// reads our sentence and not the API server's.
const Timeout = 8 * time.Second

// Review is one admission.
type Review struct {
	Caller Caller
	// Create, Update and Delete tell the operations apart.
	Operation admissionv1.Operation
	// Resource is what is written; SubResource is empty for the object itself.
	Resource    schema.GroupResource
	SubResource string
	Namespace   string
	DryRun      bool
	// Object is as it would be stored; nil on delete. A mutating step changes it in place.
	Object *unstructured.Unstructured
	// Old is as it is stored; nil on create.
	Old *unstructured.Unstructured
	// Warnings are shown to the caller of an admission that succeeds.
	Warnings []string
}

// Step is one step of an admission. Its error refuses the object: make it with Forbidden and the like.
type Step func(ctx context.Context, r *Review) error

// Mutating makes a handler whose answer is what the step changed in the object.
func Mutating(step Step) admission.Handler {
	return handler(step, func(raw []byte, r *Review) admission.Response {
		changed, err := json.Marshal(r.Object)
		if err != nil {
			return admission.Errored(500, err)
		}
		return admission.PatchResponseFromRaw(raw, changed)
	})
}

// Validating makes a handler that only says yes or no.
func Validating(step Step) admission.Handler {
	return handler(step, func([]byte, *Review) admission.Response {
		return admission.Response{AdmissionResponse: admissionResponse(true, nil)}
	})
}

func handler(step Step, accept func(raw []byte, r *Review) admission.Response) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		ctx, cancel := context.WithTimeout(ctx, Timeout)
		defer cancel()
		r, err := newReview(&req)
		if err != nil {
			return response(ctx, Invalid("metadata", "the object cannot be read as JSON"))
		}
		if err := step(ctx, r); err != nil {
			return response(ctx, err).WithWarnings(r.Warnings...)
		}
		return accept(req.Object.Raw, r).WithWarnings(r.Warnings...)
	})
}

func newReview(req *admission.Request) (*Review, error) {
	r := &Review{
		Caller: CallerOf(req.UserInfo), Operation: req.Operation, Namespace: req.Namespace, DryRun: ptr.Deref(req.DryRun, false),
		Resource: schema.GroupResource{Group: req.Resource.Group, Resource: req.Resource.Resource}, SubResource: req.SubResource,
	}
	var err error
	if r.Object, err = object(req.Object.Raw); err != nil {
		return nil, err
	}
	r.Old, err = object(req.OldObject.Raw)
	return r, err
}

func object(raw []byte) (*unstructured.Unstructured, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(raw)
}

func admissionResponse(allowed bool, status *metav1.Status) admissionv1.AdmissionResponse {
	return admissionv1.AdmissionResponse{Allowed: allowed, Result: status}
}

// maxWarning bounds a warning, in characters. The API server cuts longer ones once there are several.
const maxWarning = 512

// Warn adds a warning, which kubectl shows in a line of its own. The API server drops texts of several lines.
func (r *Review) Warn(format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	r.Warnings = append(r.Warnings, plaintext.Line(text, maxWarning))
}

// Decode reads an object into a typed one. It is called before the API server has applied the schema to what the client
// sent.
func Decode(from *unstructured.Unstructured, into any) error {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return Invalid(mistyped.Field, "a "+mistyped.Value+" cannot stand here: `kubectl explain` describes the field")
	case err != nil:
		return Invalid("spec", "it cannot be read ("+err.Error()+"): `kubectl explain` describes the fields")
	}
	return nil
}
