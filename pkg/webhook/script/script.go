// Package script admits ScriptChecks: an expression that does not compile is refused before anybody waits for it. Rules
// are tried with their template, so their writers read the refusal as a warning.
package script

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/checks/script"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// ValidatePath is where the webhook is served.
const ValidatePath = "/validate/scriptchecks"

// Webhook admits ScriptChecks.
type Webhook struct{}

// New returns a Webhook.
func New() *Webhook { return &Webhook{} }

// Register serves the webhook.
func (w *Webhook) Register(server webhook.Server) {
	server.Register(ValidatePath, &admission.Webhook{Handler: admit.Validating(w.Validate)})
}

// Validate refuses an expression that cannot be run. An object that stays as it was is not looked at: a new
// release must not make stored ones unwritable.
func (w *Webhook) Validate(_ context.Context, r *admit.Review) error {
	if r.Old != nil && equality.Semantic.DeepEqual(r.Object.Object["spec"], r.Old.Object["spec"]) {
		return nil
	}
	var check approvalv1alpha1.ScriptCheck
	if err := admit.Decode(r.Object, &check); err != nil {
		return err
	}
	if _, err := script.Compile(check.Spec.Expression); err != nil {
		return admit.Invalid("spec.expression", err.Error())
	}
	return nil
}
