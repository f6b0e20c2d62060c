package origin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// ReleaseKind is the kind of Releases: runs that have no pods of their own.
var ReleaseKind = releasev1alpha1.GroupVersion.WithKind(releasev1alpha1.KindRelease).GroupKind()

// Release is what is kept of a Release beside what every Node has.
type Release struct {
	// Plan names the ReleasePlan, in the Release's namespace.
	Plan string
	// Author, AutomatedBy and Standing are what admission recorded. Standing is nil if there is no such record, or none
	// that can be read.
	Author, AutomatedBy string
	Standing            *attribution.Standing
	// Verified is the author whom the status names as verified, and VerifiedAt when that was; empty and zero if there is
	// none. ByPlan tells that he stands on the plan. PipelineRun is the namespace and name, joined by a slash, of the run that
	// the status names. They are only to be believed where the status of Releases is guarded.
	Verified    string
	VerifiedAt  time.Time
	ByPlan      bool
	PipelineRun string
}

// Accountable is who answers for the Release by what admission recorded: its author, or who stood for its plan when a
// program made it. It is empty if nobody does, and may be a robot.
func (r *Release) Accountable() string {
	switch {
	case r.AutomatedBy == "":
		return r.Author
	case r.Standing != nil:
		return r.Standing.Author
	}
	return ""
}

// statusGrace is how long after a run was made the status of its Release may still be on its way.
const statusGrace = 5 * time.Minute

// Finder finds some object of the kind that matches; a Cache is one.
type Finder interface {
	Find(ctx context.Context, kind schema.GroupKind, matches func(*Node) bool) (*Node, error)
}

// MadeFor is the Release for which the controller of Releases made the run: its status, which must be guarded, names the run
// before it is made. It is nil if there is none, and the error Is ErrUnobserved if it may yet be seen.
func MadeFor(ctx context.Context, releases Finder, run *Node, now time.Time) (*Node, error) {
	name := run.Namespace + "/" + run.Name
	release, err := releases.Find(ctx, ReleaseKind, func(n *Node) bool { return n.Release.PipelineRun == name && n.Release.Verified != "" })
	switch {
	case err == nil:
		return release, nil
	case errors.Is(err, ErrNotFound) && run.Created.Add(statusGrace).Before(now):
		return nil, nil
	}
	return nil, fmt.Errorf("the Release that %s was made for: %w", run, ErrUnobserved)
}

// readRelease reads both wordings of the status.
func (n *Node) readRelease(u *unstructured.Unstructured) {
	annotations := u.GetAnnotations()
	r := &Release{
		Plan:        text(u.Object, "spec", "releasePlan"),
		Author:      strings.Clone(annotations[approvalv1alpha1.AnnotationAuthor]),
		AutomatedBy: strings.Clone(annotations[approvalv1alpha1.AnnotationAutomated]),
		PipelineRun: text(u.Object, "status", "managedProcessing", "pipelineRun"),
	}
	if standing, err := attribution.ParseStanding(annotations[approvalv1alpha1.AnnotationStanding]); err == nil {
		r.Standing = standing
	}
	for field, byPlan := range map[string]string{"attribution": "standingAttribution", "authorization": "standingAuthorization"} {
		at, err := time.Parse(time.RFC3339, text(u.Object, "status", field, "verifiedAt"))
		if err == nil && flag(u.Object, "status", field, "verified") {
			r.Verified, r.VerifiedAt = text(u.Object, "status", field, "author"), at.UTC()
			r.ByPlan = flag(u.Object, "status", field, byPlan)
		}
	}
	n.Release = r
	n.finishRelease(u.Object)
}

// finishRelease reads the condition Released. While the Release goes on the public release-service says False with the
// reason Progressing.
func (n *Node) finishRelease(o map[string]any) {
	released := condition(o, releasev1alpha1.ConditionReleased)
	reason, _ := released["reason"].(string)
	n.finish(released["status"] == "True" || released["status"] == "False" && reason != releasev1alpha1.ReasonProgressing, reason)
}

func flag(o map[string]any, path ...string) bool {
	b, _, err := unstructured.NestedBool(o, path...)
	return err == nil && b
}

// Find returns some object of the kind that matches, as far as it has been seen. The error is ErrNotFound if there is
// none, and ErrUnobserved while the kind is not synced or not watched at all. It looks at every object.
func (c *Cache) Find(_ context.Context, kind schema.GroupKind, matches func(*Node) bool) (*Node, error) {
	s, watched := c.stores[kind]
	if !watched || !s.synced.Load() {
		return nil, fmt.Errorf("objects of the kind %s: %w", kind, ErrUnobserved)
	}
	if node := s.find(matches); node != nil {
		return node, nil
	}
	return nil, fmt.Errorf("an object of the kind %s that matches: %w", kind, ErrNotFound)
}

func (s *store) find(matches func(*Node) bool) *Node {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, inNamespace := range s.nodes {
		for _, node := range inNamespace {
			if matches(node) {
				return node
			}
		}
	}
	return nil
}
