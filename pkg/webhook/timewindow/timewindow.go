// Package timewindow admits TimeWindowChecks: a schedule that cannot be read is refused before anybody waits for it. Rules
// are tried with their template, so their writers read the refusal as a warning.
package timewindow

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks/timewindow"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// ValidatePath is where the webhook is served.
const ValidatePath = "/validate/timewindowchecks"

// Webhook admits TimeWindowChecks.
type Webhook struct{}

// New returns a Webhook.
func New() *Webhook { return &Webhook{} }

// Register serves the webhook.
func (w *Webhook) Register(server webhook.Server) {
	server.Register(ValidatePath, &admission.Webhook{Handler: admit.Validating(w.Validate)})
}

// Validate refuses a schedule that cannot be read or has no length. An object that stays as it was is not looked at: a new
// release must not make stored ones unwritable.
func (w *Webhook) Validate(_ context.Context, r *admit.Review) error {
	if r.Old != nil && equality.Semantic.DeepEqual(r.Object.Object["spec"], r.Old.Object["spec"]) {
		return nil
	}
	var check approvalv1alpha1.TimeWindowCheck
	if err := admit.Decode(r.Object, &check); err != nil {
		return err
	}
	if _, err := timewindow.Parse(&check.Spec); err != nil {
		return admit.Invalid("spec", err.Error())
	}
	for i, window := range check.Spec.Windows {
		if window.From == window.To {
			return admit.Invalid(fmt.Sprintf("spec.windows[%d].to", i), "it is the same as from: for a whole day write 00:00 to 24:00")
		}
	}
	return nil
}
