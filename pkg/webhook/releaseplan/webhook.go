package releaseplan

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// Paths at which the steps are served.
const (
	MutatePath   = "/mutate/releaseplans"
	ValidatePath = "/validate/releaseplans"
)

// maxName bounds a name of somebody in a sentence, in characters.
const maxName = 256

// Deps is what the webhook needs.
type Deps struct {
	Clock      clock.PassiveClock
	Vocabulary attribution.Vocabulary
}

// Webhook admits ReleasePlans.
type Webhook struct{ Deps }

// New returns a Webhook.
func New(deps Deps) *Webhook { return &Webhook{deps} }

// Register serves both steps.
func (w *Webhook) Register(server webhook.Server) {
	server.Register(MutatePath, &admission.Webhook{Handler: admit.Mutating(w.Mutate)})
	server.Register(ValidatePath, &admission.Webhook{Handler: admit.Validating(w.Validate)})
}

// Mutate writes who stands for the plan. It may run again after another webhook, and then finds what it wrote itself.
func (w *Webhook) Mutate(_ context.Context, r *admit.Review) error {
	c, err := w.changeOf(r)
	if err != nil {
		return err
	}
	out, err := c.settle()
	if err != nil {
		return err
	}
	out.writeTo(r.Object)
	return nil
}

// asserted are the fields that the mutating step writes to.
var asserted = [][]string{{"metadata", "annotations"}, {"metadata", "labels"}}

// Validate works out again who stands, and refuses a plan that ends otherwise.
func (w *Webhook) Validate(_ context.Context, r *admit.Review) error {
	c, err := w.changeOf(r)
	if err != nil {
		return err
	}
	out, err := c.settle()
	if err != nil {
		return err
	}
	want := r.Object.DeepCopy()
	out.writeTo(want)
	if err := admit.Untouched(r.Object, want, asserted); err != nil {
		return err
	}
	if out.taken && out.standing.Generation != r.Object.GetGeneration() {
		return admit.Invalid("spec", "another admission webhook changed it after it was accepted: try again, and look for that webhook")
	}
	if c.asks && out.author == "" && c.concernsStanding() {
		warn(r)
	}
	return nil
}

// warn tells a writer who leaves a plan for which nobody stands, although it asks for somebody.
func warn(r *admit.Review) {
	plan := fmt.Sprintf("releaseplan/%s -n %s", r.Object.GetName(), r.Namespace)
	proposed := r.Object.GetAnnotations()[approvalv1alpha1.AnnotationProposed]
	switch {
	case proposed == "":
		r.Warn("nobody stands for the plan, so programs cannot release by it: name somebody in the annotation %s, who then runs `kubectl countersign accept %s`",
			approvalv1alpha1.AnnotationProposed, plan)
	case attribution.IsRobot(proposed):
		r.Warn("nobody stands for the plan, and %s cannot, because that is no person: propose somebody else",
			plaintext.Line(proposed, maxName))
	default:
		r.Warn("nobody stands for the plan until %s runs `kubectl countersign accept %s`", plaintext.Line(proposed, maxName), plan)
	}
}
