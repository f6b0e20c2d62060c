package releaseplan

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// outcome is what a plan must end with.
type outcome struct {
	// author is the exact name of who stands; empty if nobody does. label shows him.
	author, label string
	// record is the annotation standing.
	record string
	// accept is the annotation accept: empty or no.
	accept string
	// dropProposed takes the proposal away. Otherwise it stays as it is sent, because it conveys nothing.
	dropProposed bool

	// taken tells that the caller stands by this very change, as standing says.
	taken    bool
	standing attribution.Standing

	authorLabel string
}

func (o *outcome) writeTo(u *unstructured.Unstructured) {
	annotations := map[string]string{
		approvalv1alpha1.AnnotationAuthor: o.author, approvalv1alpha1.AnnotationStanding: o.record, approvalv1alpha1.AnnotationAccept: o.accept,
		// It says something on Releases only.
		approvalv1alpha1.AnnotationAutomated: "",
	}
	if o.dropProposed {
		annotations[approvalv1alpha1.AnnotationProposed] = ""
	}
	admit.SetAnnotations(u, annotations)
	admit.SetLabels(u, map[string]string{o.authorLabel: o.label})
}

// nobody is a plan for which nobody stands.
func (c *change) nobody() *outcome { return &outcome{authorLabel: c.vocabulary.AuthorLabel} }

// keep is the plan as it was.
func (c *change) keep() *outcome {
	out := c.nobody()
	out.author, out.record = c.had[approvalv1alpha1.AnnotationAuthor], c.had[approvalv1alpha1.AnnotationStanding]
	out.label = c.old.GetLabels()[c.vocabulary.AuthorLabel]
	if out.author == "" && !c.isProposing() {
		// A word that was taken back stays so until somebody is asked again.
		out.accept = c.have[approvalv1alpha1.AnnotationAccept]
	}
	return out
}

// take is the plan for which the caller stands from now on, until the time if there is one.
func (c *change) take(until *time.Time) *outcome {
	return c.standsBy(attribution.Standing{
		Generation: c.generation, Admission: c.admission, Author: c.caller, AcceptedAt: c.now, ExpiresAt: until,
	})
}

func (c *change) standsBy(standing attribution.Standing) *outcome {
	out := c.nobody()
	out.author, out.label, out.record = c.caller, attribution.LabelValue(c.caller), standing.String()
	out.taken, out.standing = true, standing
	return out
}

// isTaken tells that the object carries already what take wrote for this very change: the step runs again, or asserts. A
// client that writes the same by hand has only said the same in other words, because nobody but who may accept can.
func (c *change) isTaken() bool {
	record := c.have[approvalv1alpha1.AnnotationStanding]
	standing, err := attribution.ParseStanding(record)
	if err != nil || record == c.had[approvalv1alpha1.AnnotationStanding] || c.have[approvalv1alpha1.AnnotationAccept] != "" {
		return false
	}
	want := attribution.Standing{
		Generation: c.generation, Admission: c.admission, Author: c.caller, AcceptedAt: standing.AcceptedAt, ExpiresAt: standing.ExpiresAt,
	}
	return want.String() == record && c.have[approvalv1alpha1.AnnotationAuthor] == c.caller && c.mayAccept() && c.isRecent(standing)
}

func (c *change) isRecent(s *attribution.Standing) bool {
	return s.AcceptedAt.Sub(c.now).Abs() <= skew && (s.ExpiresAt == nil || s.ExpiresAt.After(c.now.Add(-skew)))
}

// taken is the plan as take left it.
func (c *change) taken() *outcome {
	standing, err := attribution.ParseStanding(c.have[approvalv1alpha1.AnnotationStanding])
	if err != nil {
		return c.keep()
	}
	return c.standsBy(*standing)
}
