package release

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// Paths at which the steps are served.
const (
	MutatePath   = "/mutate/releases"
	ValidatePath = "/validate/releases"
)

// maxName bounds a name of somebody in a sentence, in characters.
const maxName = 256

// Access answers whether a user may do something; an error is a no.
type Access interface {
	Allowed(ctx context.Context, user authz.UserInfo, attrs authz.ResourceAttributes) (allowed bool, reason string, err error)
}

// Deps is what the webhook needs.
type Deps struct {
	// Live asks the API server for a plan; it must not be a cache, because a Release stands on the plan as it is.
	Live       client.Reader
	Access     Access
	Vocabulary attribution.Vocabulary
	// Automated are the exact user names of the service accounts that may say that they are programs.
	Automated sets.Set[string]
}

// Webhook admits Releases.
type Webhook struct{ Deps }

// New returns a Webhook.
func New(deps Deps) *Webhook { return &Webhook{deps} }

// Register serves both steps.
func (w *Webhook) Register(server webhook.Server) {
	server.Register(MutatePath, &admission.Webhook{Handler: admit.Mutating(w.Mutate)})
	server.Register(ValidatePath, &admission.Webhook{Handler: admit.Validating(w.Validate)})
}

// Mutate records author and plan of a new Release, and puts them back in a stored one.
func (w *Webhook) Mutate(ctx context.Context, r *admit.Review) error {
	rec, err := w.record(ctx, r)
	if err != nil {
		return err
	}
	rec.writeTo(r.Object)
	return nil
}

// asserted are the fields that the mutating step writes to.
var asserted = [][]string{{"metadata", "annotations"}, {"metadata", "labels"}}

// Validate works the record out again, and refuses a Release that ends with another.
func (w *Webhook) Validate(ctx context.Context, r *admit.Review) error {
	rec, err := w.record(ctx, r)
	if err != nil {
		return err
	}
	if r.Operation == admissionv1.Create && r.Object.GetAnnotations()[approvalv1alpha1.AnnotationStanding] != rec.annotations[approvalv1alpha1.AnnotationStanding] {
		return admit.Conflict(fmt.Sprintf(
			"the ReleasePlan %s is not as it was a moment ago, or another admission webhook changed the annotation %s: create the Release again",
			plaintext.Line(planName(r.Object), maxName), approvalv1alpha1.AnnotationStanding))
	}
	want := r.Object.DeepCopy()
	rec.writeTo(want)
	return admit.Untouched(r.Object, want, asserted)
}

// record is what the object must end with, whatever the client sends.
func (w *Webhook) record(ctx context.Context, r *admit.Review) (*record, error) {
	if err := admit.Readable(r.Object); err != nil {
		return nil, err
	}
	if r.Operation == admissionv1.Create {
		return w.made(ctx, r)
	}
	return w.kept(ctx, r)
}

// made is the record of a new Release.
func (w *Webhook) made(ctx context.Context, r *admit.Review) (*record, error) {
	caller := r.Caller.Username
	if caller == "" {
		return nil, admit.Forbidden("the API server does not say who makes this Release, so nobody would answer for it: log in first")
	}
	rec := &record{annotations: map[string]string{}, labels: map[string]string{}}
	automated := admit.IsOn(r.Object, w.Vocabulary.AutomatedLabel)
	if automated && !w.Automated.Has(caller) {
		return nil, admit.Because(approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
			"the label %s is set by the service accounts that --automated-service-accounts names, and %s is none of them: leave the label out, and you are the author",
			w.Vocabulary.AutomatedLabel, plaintext.Line(caller, maxName)))
	}
	standing, err := w.standing(ctx, r, automated)
	if err != nil {
		return nil, err
	}
	rec.annotations[approvalv1alpha1.AnnotationStanding] = standing
	if automated {
		rec.annotations[approvalv1alpha1.AnnotationAutomated], rec.annotations[approvalv1alpha1.AnnotationAuthor] = caller, ""
		rec.labels[w.Vocabulary.AuthorLabel] = ""
		return rec, nil
	}
	rec.annotations[approvalv1alpha1.AnnotationAutomated], rec.annotations[approvalv1alpha1.AnnotationAuthor] = "", caller
	rec.labels[w.Vocabulary.AuthorLabel] = attribution.LabelValue(caller)
	return rec, nil
}

// kept is the record of a stored Release: as it was, but that the author for whom it stands may be copied to it.
func (w *Webhook) kept(ctx context.Context, r *admit.Review) (*record, error) {
	rec := &record{annotations: map[string]string{}, labels: map[string]string{}}
	annotations, labels := r.Old.GetAnnotations(), r.Old.GetLabels()
	for _, name := range []string{approvalv1alpha1.AnnotationAuthor, approvalv1alpha1.AnnotationAutomated, approvalv1alpha1.AnnotationStanding} {
		rec.annotations[name] = annotations[name]
	}
	for _, name := range []string{w.Vocabulary.AuthorLabel, w.Vocabulary.AutomatedLabel} {
		rec.labels[name] = labels[name]
	}
	return rec, w.copyStanding(ctx, r, rec)
}

// copyStanding lets who decides show on an automated Release the author for whom it stands, as the ADR has it.
func (w *Webhook) copyStanding(ctx context.Context, r *admit.Review, rec *record) error {
	standing, err := attribution.ParseStanding(rec.annotations[approvalv1alpha1.AnnotationStanding])
	if err != nil || standing.Author == "" || rec.annotations[approvalv1alpha1.AnnotationAutomated] == "" {
		return nil //nolint:nilerr // A record that cannot be read names nobody, so there is nothing to copy.
	}
	annotation := rec.annotations[approvalv1alpha1.AnnotationAuthor] == "" &&
		r.Object.GetAnnotations()[approvalv1alpha1.AnnotationAuthor] == standing.Author
	value := attribution.LabelValue(standing.Author)
	label := rec.labels[w.Vocabulary.AuthorLabel] == "" && r.Object.GetLabels()[w.Vocabulary.AuthorLabel] == value
	if !annotation && !label {
		return nil
	}
	decides, _, err := w.Access.Allowed(ctx, r.Caller.UserInfo, authz.ResourceAttributes{
		Group: approvalv1alpha1.AuthorityGroup, Resource: approvalv1alpha1.ResourceChecks, Verb: approvalv1alpha1.VerbDecide,
	})
	if err != nil {
		return admit.Unavailable("it cannot be told now whether you may name the author of this Release: try again in a moment", err)
	}
	if decides && annotation {
		rec.annotations[approvalv1alpha1.AnnotationAuthor] = standing.Author
	}
	if decides && label {
		rec.labels[w.Vocabulary.AuthorLabel] = value
	}
	return nil
}
