// Package timewindow admits TimeWindowChecks: what the schema cannot tell about zones, times and dates.
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

// ValidatePath is where the step is served.
const ValidatePath = "/validate/timewindowchecks"

// Register serves the step.
func Register(server webhook.Server) {
	server.Register(ValidatePath, &admission.Webhook{Handler: admit.Validating(Validate)})
}

// Validate refuses zones that are not known, windows without length, and dates that do not exist. An object that stays
// as it was is not looked at: a new release must not make stored ones unwritable.
func Validate(_ context.Context, r *admit.Review) error {
	if r.Old != nil && equality.Semantic.DeepEqual(r.Object.Object["spec"], r.Old.Object["spec"]) {
		return nil
	}
	var check approvalv1alpha1.TimeWindowCheck
	if err := admit.Decode(r.Object, &check); err != nil {
		return err
	}
	return checkSpec(&check.Spec)
}

func checkSpec(spec *approvalv1alpha1.TimeWindowCheckSpec) error {
	if _, err := timewindow.Parse(spec); err != nil {
		return admit.Invalid("spec", err.Error())
	}
	for i, window := range spec.Windows {
		if window.From == window.To {
			return admit.Invalid(fmt.Sprintf("spec.windows[%d].to", i), "it is the same as from: for a whole day write 00:00 to 24:00")
		}
	}
	return nil
}
