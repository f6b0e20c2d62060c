package request

import (
	"context"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/origin"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// Paths at which the steps are served.
const (
	MutatePath   = "/mutate/resourcecheckrequests"
	ValidatePath = "/validate/resourcecheckrequests"
)

// Access answers whether a user may do something; an error is a no.
type Access interface {
	Allowed(ctx context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (allowed bool, reason string, err error)
}

// Deps is what the webhook needs.
type Deps struct {
	Clock clock.PassiveClock
	// Live asks the API server; it must not be a cache.
	Live client.Reader
	// Cache holds all requests, indexed by asked.SetupIndex.
	Cache client.Reader
	// Status records who else asked, in the status of the request that already asks.
	Status client.StatusClient
	Mapper apimeta.RESTMapper
	Access Access
	// Origins must read live, and Climber must climb over it.
	Origins origin.Source
	Climber *origin.Climber
	Runs    origin.Config
	// Since is the moment from which on creator records are believed; zero means none is.
	Since  func() time.Time
	Limits Limits
}

// Webhook admits requests.
type Webhook struct {
	Deps
	admitted *ledger
}

// New returns a Webhook.
func New(deps Deps) *Webhook {
	deps.Limits.setDefaults()
	return &Webhook{Deps: deps, admitted: newLedger()}
}

// Register serves both steps.
func (w *Webhook) Register(server webhook.Server) {
	server.Register(MutatePath, &admission.Webhook{Handler: admit.Mutating(w.Mutate)})
	server.Register(ValidatePath, &admission.Webhook{Handler: admit.Validating(w.Validate)})
}

// Mutate completes a new request, and puts back what an update lacks.
func (w *Webhook) Mutate(ctx context.Context, r *admit.Review) error {
	if r.Operation == admissionv1.Update {
		return w.putBack(r)
	}
	_, err := w.complete(ctx, &r.Caller, r.Object, r.Namespace)
	return err
}

// Validate asserts what Mutate set, and refuses what only a finished object can be refused for.
func (w *Webhook) Validate(ctx context.Context, r *admit.Review) error {
	if r.Operation == admissionv1.Update {
		return w.validateUpdate(ctx, r)
	}
	return w.validateCreate(ctx, r)
}
