package cli

import (
	"bufio"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// maxElse is how many lines of what else a plan says are shown to who accepts it.
const maxElse = 200

type acceptOptions struct {
	output   output
	expires  string
	withdraw bool
	yes      bool
}

func (p *program) accept() *cobra.Command {
	o := &acceptOptions{}
	cmd := verb(&cobra.Command{
		Use:   "accept releaseplan/NAME",
		Short: "Stand for a release plan, or stop",
		Long: `Stand for a release plan that names you: answer for the Releases that programs make by it.

You stand for the plan as it is shown; of a very long spec a part is shown, and the command that shows the rest. When a
program changes the spec later, or which admission the plan means, your word is gone, and you may accept again. The server
sees who you are, and takes the word of nobody but who is proposed for the plan or stands for it already.

When you take your word back, automated Releases that still wait for an answer fail; what runs goes on.

You are asked before anything is done. Where nobody can be asked, because standard input or standard error is no terminal,
give --yes.` + exits(codes{ExitDone: "done", ExitDenied: "refused", ExitNotFound: "no such plan"}),
		Example: example(`
# See what you would answer for, and accept it
{{}} accept releaseplan/shop -n team-a

# For a quarter of a year, without being asked again
{{}} accept releaseplan/shop -n team-a --expires 2160h --yes

# Take your word back, or decline
{{}} accept releaseplan/shop -n team-a --withdraw`),
		Args: exactlyOne, ValidArgsFunction: p.completePlans(),
	}, func(ctx context.Context, args []string) error { return p.runAccept(ctx, o, args[0]) })
	cmd.Flags().StringVar(&o.expires, "expires", "", "When your word ends: a duration such as 720h, or a time such as 2030-01-31T18:00:00Z.")
	cmd.Flags().BoolVar(&o.withdraw, "withdraw", false, "Take your word back, or decline to give it.")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask, do it. Needed where nobody can be asked.")
	o.output.addTo(cmd)
	return cmd
}

// completePlans offers the plans of the namespace.
func (p *program) completePlans() completer {
	return p.complete(func(ctx context.Context, c *cluster) ([]string, error) {
		namespace, err := p.namespace()
		if err != nil {
			return nil, err
		}
		plans := &unstructured.UnstructuredList{}
		plans.SetGroupVersionKind(releasev1alpha1.GroupVersion.WithKind(releasev1alpha1.KindReleasePlan + "List"))
		err = c.List(ctx, plans, client.InNamespace(namespace))
		names := make([]string, 0, len(plans.Items))
		for i := range plans.Items {
			names = append(names, "releaseplan/"+plans.Items[i].GetName())
		}
		return names, err
	})
}

func (p *program) runAccept(ctx context.Context, o *acceptOptions, word string) error {
	value, err := o.value(p.clock.Now())
	if err != nil {
		return err
	}
	if !o.yes && !p.asks {
		return usage("standard input or standard error is no terminal, so nobody can be asked: run it on one, or give --yes")
	}
	namespace, err := p.namespace()
	if err != nil {
		return err
	}
	c, err := p.dial(p)
	if err != nil {
		return err
	}
	me, err := c.whoami(ctx)
	if err != nil {
		return err
	}
	plan, err := c.plan(ctx, word, namespace)
	if err != nil {
		return err
	}
	p.tell("%s", strings.TrimSuffix(p.planSheet(plan), "\n"))
	if !o.yes && !p.confirm(o.question()) {
		return fail(ExitError, "nothing was changed, because you did not say yes: answer y, or give --yes")
	}
	if err := c.sendWord(ctx, plan, value, me.Username); err != nil {
		return err
	}
	if err := o.took(plan, me.Username); err != nil {
		return err
	}
	if o.output.machine() {
		plan.SetManagedFields(nil)
		return o.output.print(p.streams.Out, false, namedObject(plan))
	}
	p.say("%s", p.acceptedText(plan, me.Username))
	return nil
}

// value is what the annotation accept says.
func (o *acceptOptions) value(now time.Time) (string, error) {
	switch {
	case o.withdraw && o.expires != "":
		return "", usage("give either --withdraw or --expires")
	case o.withdraw:
		return "false", nil
	case o.expires == "":
		return "true", nil
	}
	var until moment
	if lasts, err := time.ParseDuration(o.expires); err == nil {
		until.Time = now.Add(lasts).UTC().Truncate(time.Second)
	} else if err := until.Set(o.expires); err != nil {
		return "", usage("--expires %s is neither a duration nor a time: write 720h, or 2030-01-31T18:00:00Z", words(o.expires))
	}
	if !until.After(now) {
		return "", usage("--expires %s is over already: give a time to come", words(o.expires))
	}
	return until.String(), nil
}

func (o *acceptOptions) question() string {
	if o.withdraw {
		return "Do you take your word back?"
	}
	return "Do you answer for the Releases that programs make by this plan?"
}

// confirm asks whoever sits at the terminal.
func (p *program) confirm(question string) bool {
	p.tell("%s [y/N]", question)
	answer, _ := bufio.NewReader(p.streams.In).ReadString('\n') // Without an answer it is no.
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// plan reads the plan that a word means, with fields that only its own installation knows.
func (c *cluster) plan(ctx context.Context, word, namespace string) (*unstructured.Unstructured, error) {
	ref, err := c.target(word, namespace)
	if err != nil {
		return nil, err
	}
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if gvk.Group != releasev1alpha1.GroupVersion.Group || gvk.Kind != releasev1alpha1.KindReleasePlan {
		return nil, usage("%s is no release plan, and nothing else is accepted: write releaseplan/NAME", words(word))
	}
	plan := &unstructured.Unstructured{}
	plan.SetGroupVersionKind(gvk)
	if err := c.Get(ctx, keyOf(namespace, ref.Name), plan); err != nil {
		return nil, err
	}
	return plan, nil
}

// sendWord says it to the plan that was shown, and to no later one. plan is then as the server stored it.
func (c *cluster) sendWord(ctx context.Context, plan *unstructured.Unstructured, value, me string) error {
	before := plan.DeepCopy()
	annotations := plan.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[approvalv1alpha1.AnnotationAccept] = value
	if value == "false" && annotations[approvalv1alpha1.AnnotationProposed] == me {
		delete(annotations, approvalv1alpha1.AnnotationProposed)
	}
	plan.SetAnnotations(annotations)
	err := c.Patch(ctx, plan, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return fail(ExitError, "the plan changed after it was shown, so nothing was said: look at it again")
	}
	return err
}

// took asserts that the server did what was asked: without its webhooks an annotation is only an annotation.
func (o *acceptOptions) took(plan *unstructured.Unstructured, me string) error {
	if stands := plan.GetAnnotations()[approvalv1alpha1.AnnotationAuthor] == me; stands == o.withdraw {
		return fail(ExitError, "the server stored your word but did not act on it: ask an administrator whether Countersign's webhooks are installed")
	}
	return nil
}

// planSheet is what somebody answers for who accepts the plan.
func (p *program) planSheet(plan *unstructured.Unstructured) string {
	out := &sheet{}
	annotations := plan.GetAnnotations()
	out.field("Plan", "%s", showName(plan.GetName())+" in "+showName(plan.GetNamespace()))
	for _, field := range []struct {
		name string
		path []string
	}{
		{"Application", []string{"spec", "application"}}, {"Components", []string{"spec", "componentGroup"}}, {"Target", []string{"spec", "target"}},
	} {
		text, _, _ := unstructured.NestedString(plan.Object, field.path...)
		out.optional(field.name, showName(text))
	}
	out.optional("Admission", admissionText(plan))
	out.list("Else", elseLines(plan))
	out.field("Generation", "%d", plan.GetGeneration())
	out.optional("Created by", showName(annotations[approvalv1alpha1.AnnotationCreatedBy]))
	out.optional("Changed by", showName(annotations[approvalv1alpha1.AnnotationChangedBy]))
	out.optional("Proposed", showName(annotations[approvalv1alpha1.AnnotationProposed]))
	out.optional("Stands", p.standsText(plan))
	return out.String()
}

// admissionText is where the plan says that its Releases go. What it names itself is what counts, and what the status says
// may be older.
func admissionText(plan *unstructured.Unstructured) string {
	var named []string
	for _, words := range attribution.Vocabularies() {
		if name := plan.GetLabels()[words.AdmissionLabel]; name != "" && !slices.Contains(named, showName(name)) {
			named = append(named, showName(name))
		}
	}
	if len(named) > 0 {
		return strings.Join(named, " or ")
	}
	if found, _, _ := unstructured.NestedString(plan.Object, "status", "releasePlanAdmission", "name"); found != "" {
		return showName(found) + ", when it was last looked for"
	}
	return ""
}

// elseLines is whatever else the spec says, as YAML, because who accepts the plan answers for that, too.
func elseLines(plan *unstructured.Unstructured) []string {
	spec, _, _ := unstructured.NestedMap(plan.Object, "spec")
	for _, shown := range []string{"application", "componentGroup", "target"} {
		delete(spec, shown)
	}
	if len(spec) == 0 {
		return nil
	}
	text, err := yaml.Marshal(spec)
	if err != nil {
		return []string{"cannot be shown: " + sentence(err)}
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	cut := len(lines) > maxElse
	lines = lines[:min(len(lines), maxElse)]
	for i, line := range lines {
		cut = cut || len(line) > maxText
		lines[i] = show(line)
	}
	if cut {
		lines = append(lines, "... and more, that you answer for, too: look at it with kubectl get releaseplan "+
			shellWord(plan.GetName())+" -n "+shellWord(plan.GetNamespace())+" -o yaml")
	}
	return lines
}

// standsText is who stands for the plan; empty if nobody does.
func (p *program) standsText(plan *unstructured.Unstructured) string {
	standing, err := attribution.ParseStanding(plan.GetAnnotations()[approvalv1alpha1.AnnotationStanding])
	if err != nil || standing.Author == "" {
		return ""
	}
	text := showName(standing.Author) + ", since " + momentText(standing.AcceptedAt, p.clock.Now())
	if standing.ExpiresAt != nil {
		text += ", until " + momentText(*standing.ExpiresAt, p.clock.Now())
	}
	return text
}

func (p *program) acceptedText(plan *unstructured.Unstructured, me string) string {
	name := "releaseplan/" + showName(plan.GetName()) + " in " + showName(plan.GetNamespace())
	switch stands := plan.GetAnnotations()[approvalv1alpha1.AnnotationAuthor]; stands {
	case me:
		return "accepted " + name + ": " + p.standsText(plan)
	case "":
		return "withdrawn from " + name + ": nobody stands for it"
	default:
		return "declined " + name + ": " + showName(stands) + " stands for it"
	}
}
