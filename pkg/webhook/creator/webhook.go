package creator

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// Where the webhooks are served.
const (
	MutatePath    = "/mutate-creator-record"
	ValidatePath  = "/validate-creator-record"
	LabelPath     = "/mutate-request-label"
	OwnershipPath = "/mutate-ownership"
)

// Access answers whether a user may do something; an error is a no.
type Access interface {
	Allowed(ctx context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (allowed bool, reason string, err error)
}

// Webhook admits any object.
type Webhook struct{ Access Access }

// New returns a Webhook.
func New(access Access) *Webhook { return &Webhook{access} }

// Register serves the webhooks.
func (w *Webhook) Register(server webhook.Server) {
	server.Register(MutatePath, &admission.Webhook{Handler: admit.Mutating(w.Mutate)})
	server.Register(ValidatePath, &admission.Webhook{Handler: admit.Validating(w.Validate)})
	server.Register(LabelPath, &admission.Webhook{Handler: admit.Mutating(w.MutateLabelled)})
	server.Register(OwnershipPath, &admission.Webhook{Handler: admit.Mutating(w.MutateOwnership)})
}

// Mutate writes the creator record, whatever the client sends.
func (w *Webhook) Mutate(ctx context.Context, r *admit.Review) error {
	want, err := w.recordOf(ctx, r)
	if err != nil {
		return err
	}
	want.write(r.Object)
	return nil
}

// Validate asserts what Mutate wrote, after all other webhooks.
func (w *Webhook) Validate(ctx context.Context, r *admit.Review) error {
	want, err := w.recordOf(ctx, r)
	if err != nil {
		return err
	}
	if !want.isIn(r.Object) {
		return admit.Invalid("metadata.annotations", "the annotations created-by, created-for, changed-by and migrated-by under "+
			"attribution.alaudadevops.io are written by the API server alone: leave them out, and look for an admission webhook that changes them after you")
	}
	if r.Operation == admissionv1.Create && len(r.Object.GetOwnerReferences()) > maxOwners {
		return admit.Invalid("metadata.ownerReferences", "the object has more than 100 owner references, too many to record for whom it is created: "+
			"name its controller and leave the others out")
	}
	return nil
}
