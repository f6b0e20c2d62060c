package releaseplan

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// Values of the annotation accept beside a time.
const (
	yes = "true"
	no  = "false"
)

// skew is how far the clocks of two replicas may be apart, with the time that an admission takes: one replica may write a
// standing attribution, and another assert it.
const skew = 2 * time.Minute

// maxProposed is the longest name that the status of a plan can show, in characters.
const maxProposed = 4096

// change is one admission of a plan, as far as it matters who stands for it.
type change struct {
	vocabulary attribution.Vocabulary
	now        time.Time
	caller     string
	isPerson   bool
	object     *unstructured.Unstructured
	// old is empty on create, and never nil.
	old *unstructured.Unstructured

	// asks tells that the plan asks for somebody to stand; asked that it did before.
	asks, asked bool
	// generation is the one that the API server will give to the spec.
	generation int64
	specMoved  bool
	// admission is the one that the plan names by its label.
	admission string
	have, had map[string]string
}

// changeOf reads an admission. Its error refuses it.
func (w *Webhook) changeOf(r *admit.Review) (*change, error) {
	if err := admit.Readable(r.Object); err != nil {
		return nil, err
	}
	if r.Caller.Username == "" {
		return nil, admit.Forbidden("the API server does not say who writes this ReleasePlan, so nobody would answer for it: log in first")
	}
	old := r.Old
	if old == nil {
		old = &unstructured.Unstructured{Object: map[string]any{}}
	}
	c := &change{
		vocabulary: w.Vocabulary, now: w.Clock.Now(), caller: r.Caller.Username, isPerson: !attribution.IsRobot(r.Caller.Username),
		object: r.Object, old: old, have: r.Object.GetAnnotations(), had: old.GetAnnotations(),
		asks: admit.IsOn(r.Object, w.Vocabulary.StandingLabel), asked: admit.IsOn(old, w.Vocabulary.StandingLabel),
		admission: r.Object.GetLabels()[w.Vocabulary.AdmissionLabel],
	}
	c.specMoved = r.Old == nil || !equality.Semantic.DeepEqual(desired(r.Object), desired(old))
	c.generation = old.GetGeneration()
	if c.specMoved {
		c.generation++
	}
	return c, c.checkProposed()
}

// settle says what the plan must end with, whatever the client sends.
func (c *change) settle() (*outcome, error) {
	order := c.order()
	if !c.asks {
		return c.withoutLabel(order)
	}
	switch order {
	case "":
		return c.unasked(), nil
	case no:
		return c.withdraw()
	}
	return c.accept(order)
}

// desired is what raises the generation of an object whose kind has a status of its own: everything but metadata and
// status. The API server counts after the mutating step, which therefore counts itself.
func desired(u *unstructured.Unstructured) map[string]any {
	out := make(map[string]any, len(u.Object))
	for name, value := range u.Object {
		if name != "metadata" && name != "status" {
			out[name] = value
		}
	}
	return out
}

// isProposing tells that the proposal is another one than before.
func (c *change) isProposing() bool {
	return c.have[approvalv1alpha1.AnnotationProposed] != c.had[approvalv1alpha1.AnnotationProposed]
}

// checkProposed refuses a name that no status can show.
func (c *change) checkProposed() error {
	if c.isProposing() && utf8.RuneCountInString(c.have[approvalv1alpha1.AnnotationProposed]) > maxProposed {
		return admit.Invalid("metadata.annotations["+approvalv1alpha1.AnnotationProposed+"]",
			fmt.Sprintf("the name has more than %d characters: give the user name of one person", maxProposed))
	}
	return nil
}

// order is what the caller says of accepting; empty if he says nothing. What stands there already was said before.
func (c *change) order() string {
	if sent := c.have[approvalv1alpha1.AnnotationAccept]; sent != c.had[approvalv1alpha1.AnnotationAccept] {
		return sent
	}
	return ""
}

// moved tells that the plan is another one for whoever stands for it: made, edited, pointed at another admission, or asking
// since now.
func (c *change) moved() bool {
	return c.specMoved || !c.asked || c.admission != c.old.GetLabels()[c.vocabulary.AdmissionLabel]
}

// concernsStanding tells that the writer meant, or caused, another answer to who stands.
func (c *change) concernsStanding() bool {
	return c.moved() || c.isProposing() || c.had[approvalv1alpha1.AnnotationAuthor] != ""
}

// unasked settles a change that says nothing of accepting.
func (c *change) unasked() *outcome {
	switch {
	case c.isTaken():
		return c.taken()
	case c.moved() && c.isPerson:
		return c.take(nil)
	case c.moved():
		// His word was for the plan as it was.
		return c.nobody()
	}
	return c.keep()
}

// withoutLabel settles a plan that asks for nobody.
func (c *change) withoutLabel(order string) (*outcome, error) {
	if order != "" && order != no {
		return nil, admit.Forbidden(fmt.Sprintf(
			"the plan asks for nobody to stand for it, so it cannot be accepted: set the label %s to \"true\", with which you stand for it", c.vocabulary.StandingLabel))
	}
	return c.nobody(), nil
}

// stands is who stands for the plan once the change is made, before he says anything.
func (c *change) stands() string {
	switch {
	case c.moved() && c.isPerson:
		return c.caller
	case c.moved():
		return ""
	}
	return c.had[approvalv1alpha1.AnnotationAuthor]
}

// isProposed tells that the caller is the person who is proposed, by the plan as it was or as it is sent.
func (c *change) isProposed() bool {
	return c.caller == c.have[approvalv1alpha1.AnnotationProposed] || c.caller == c.had[approvalv1alpha1.AnnotationProposed]
}

// mayAccept tells that the caller may stand for the plan by his word.
func (c *change) mayAccept() bool { return c.isPerson && (c.isProposed() || c.caller == c.stands()) }

// accept settles a plan that its caller accepts, until the time that he gives if he gives one.
func (c *change) accept(order string) (*outcome, error) {
	if !c.mayAccept() {
		return nil, c.notHis("accepts it")
	}
	if order == yes {
		return c.take(nil), nil
	}
	until, err := time.Parse(time.RFC3339, order)
	if _, offset := until.Zone(); err != nil || offset != 0 || !until.After(c.now) {
		return nil, admit.Invalid("metadata.annotations["+approvalv1alpha1.AnnotationAccept+"]",
			fmt.Sprintf("%s is neither \"true\" nor a time to come in UTC: write for example %s", plaintext.Quote(order, maxName),
				c.now.UTC().Add(30*24*time.Hour).Format(time.RFC3339)))
	}
	until = until.Truncate(time.Second)
	return c.take(&until), nil
}

// withdraw settles a plan whose caller takes his word back, or declines to give it.
func (c *change) withdraw() (*outcome, error) {
	switch {
	case c.isPerson && (c.caller == c.had[approvalv1alpha1.AnnotationAuthor] && c.asked || c.caller == c.stands()):
		out := c.nobody()
		out.accept = no
		return c.declined(out), nil
	case c.isPerson && c.isProposed():
		out := c.unasked()
		out.accept = ""
		return c.declined(out), nil
	}
	return nil, c.notHis("takes it back")
}

// declined takes the proposal away if it was for the caller.
func (c *change) declined(out *outcome) *outcome {
	out.dropProposed = c.caller == c.have[approvalv1alpha1.AnnotationProposed]
	return out
}

// notHis refuses somebody else's word.
func (c *change) notHis(does string) error {
	who := "nobody is"
	if names := c.answerable(); len(names) > 0 {
		who = "that is " + strings.Join(names, " or ")
	}
	return admit.Because(approvalv1alpha1.ReasonNotPermitted, fmt.Sprintf(
		"only the person who is proposed or stands for the plan %s, and %s, not %s: leave the annotation %s out, or have yourself proposed by %s",
		does, who, plaintext.Line(c.caller, maxName), approvalv1alpha1.AnnotationAccept, approvalv1alpha1.AnnotationProposed))
}

// answerable are the names of who may give his word, to be shown.
func (c *change) answerable() []string {
	var names []string
	for _, name := range []string{c.have[approvalv1alpha1.AnnotationProposed], c.stands()} {
		if shown := plaintext.Line(name, maxName); name != "" && !slices.Contains(names, shown) {
			names = append(names, shown)
		}
	}
	return names
}
