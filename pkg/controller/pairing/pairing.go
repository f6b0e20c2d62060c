// Package pairing finds the ReleasePlanAdmission that lets the Releases of a ReleasePlan in.
package pairing

import (
	"fmt"
	"slices"
	"strings"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// maxNamed bounds how many admissions a sentence lists.
const maxNamed = 8

// Find returns the one admission that lets the plan's Releases in, or nil and a sentence that says how to mend that.
// admissions are Candidates, or all of the plan's target namespace. It is pure.
func Find(words attribution.Vocabulary, plan *releasev1alpha1.ReleasePlan, admissions []releasev1alpha1.ReleasePlanAdmission) (found *releasev1alpha1.ReleasePlanAdmission, problem string) {
	what := "the ReleasePlan " + plan.Namespace + "/" + plan.Name
	if plan.Spec.Target == "" {
		return nil, what + " names no target: set spec.target to the namespace that it releases to"
	}
	if name := plan.Labels[words.AdmissionLabel]; name != "" {
		return named(what, name, plan, admissions)
	}
	if plan.Spec.Application == "" && plan.Spec.ComponentGroup == "" {
		return nil, what + " says nothing to release: set spec.application or spec.componentGroup"
	}
	var matches []*releasev1alpha1.ReleasePlanAdmission
	for i := range admissions {
		if lets(&admissions[i], plan) {
			matches = append(matches, &admissions[i])
		}
	}
	switch len(matches) {
	case 1:
		return matches[0], ""
	case 0:
		return nil, fmt.Sprintf("no ReleasePlanAdmission in namespace %s lets %s of namespace %s in: its owners must make one that lists it, with that origin",
			plan.Spec.Target, content(plan), plan.Namespace)
	}
	return nil, fmt.Sprintf("several ReleasePlanAdmissions in namespace %s let %s of namespace %s in (%s): leave one, or name it with the label %s on the plan",
		plan.Spec.Target, content(plan), plan.Namespace, names(matches), words.AdmissionLabel)
}

// named is the admission that the plan's label names. Whoever writes plans writes the label, so the origin must still be
// right: it is the word of the other side.
func named(what, name string, plan *releasev1alpha1.ReleasePlan, admissions []releasev1alpha1.ReleasePlanAdmission) (*releasev1alpha1.ReleasePlanAdmission, string) {
	for i := range admissions {
		a := &admissions[i]
		if a.Name != name || a.DeletionTimestamp != nil {
			continue
		}
		if a.Spec.Origin != plan.Namespace {
			return nil, fmt.Sprintf("the ReleasePlanAdmission %s/%s, which %s names, lets nothing of namespace %s in: its owners must set its spec.origin",
				a.Namespace, a.Name, what, plan.Namespace)
		}
		return a, ""
	}
	return nil, fmt.Sprintf("there is no ReleasePlanAdmission %s/%s, which %s names: its owners must make it, or name another", plan.Spec.Target, name, what)
}

// lets tells whether the admission, in the plan's target namespace, lists what the plan releases.
func lets(a *releasev1alpha1.ReleasePlanAdmission, plan *releasev1alpha1.ReleasePlan) bool {
	if a.DeletionTimestamp != nil || a.Spec.Origin != plan.Namespace {
		return false
	}
	return plan.Spec.Application != "" && slices.Contains(a.Spec.Applications, plan.Spec.Application) ||
		plan.Spec.ComponentGroup != "" && slices.Contains(a.Spec.ComponentGroups, plan.Spec.ComponentGroup)
}

// Means tells whether the plan names the admission, or releases what that lets in. Whether the two find each other is for
// Find to say.
func Means(words attribution.Vocabulary, plan *releasev1alpha1.ReleasePlan, a *releasev1alpha1.ReleasePlanAdmission) bool {
	if plan.Spec.Target != a.Namespace {
		return false
	}
	if name := plan.Labels[words.AdmissionLabel]; name != "" {
		return name == a.Name
	}
	return lets(a, plan)
}

// Blocked tells whether the admission lets nothing through for now.
func Blocked(words attribution.Vocabulary, a *releasev1alpha1.ReleasePlanAdmission) bool {
	return a.Labels[words.BlockReleasesLabel] == "true"
}

func content(plan *releasev1alpha1.ReleasePlan) string {
	if plan.Spec.Application != "" {
		return "the application " + plan.Spec.Application
	}
	return "the component group " + plan.Spec.ComponentGroup
}

func names(matches []*releasev1alpha1.ReleasePlanAdmission) string {
	var list []string
	for _, a := range matches[:min(len(matches), maxNamed)] {
		list = append(list, a.Name)
	}
	slices.Sort(list)
	if len(matches) > maxNamed {
		list = append(list, "others")
	}
	return strings.Join(list, ", ")
}
