package origin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// ReleaseKind is the kind of Releases: runs that have no pods of their own.
var ReleaseKind = releasev1alpha1.GroupKindRelease

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

// Finder finds the Releases whose status names a run, given as namespace/name; a Cache is one. None is no error; what is not
// observed is ErrUnobserved.
type Finder interface {
	ReleasesOf(ctx context.Context, run string) ([]*Node, error)
}

// MadeFor is the Release for which the controller of Releases made the run: its status, which must be guarded, names the run
// before it is made. It is nil if there is none, and the error Is ErrUnobserved if it may yet be seen.
func MadeFor(ctx context.Context, releases Finder, run *Node, now time.Time) (*Node, error) {
	named, err := releases.ReleasesOf(ctx, run.Namespace+"/"+run.Name)
	if err != nil {
		return nil, err
	}
	for _, release := range named {
		if release.Release.Verified != "" {
			return release, nil
		}
	}
	if run.Created.Add(statusGrace).Before(now) {
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

// ReleasesOf implements Finder from what was watched.
func (c *Cache) ReleasesOf(_ context.Context, run string) ([]*Node, error) {
	s, watched := c.stores[ReleaseKind]
	if !watched || !s.synced.Load() {
		return nil, fmt.Errorf("the Releases that name the run %s: %w", run, ErrUnobserved)
	}
	return s.releasesOf(run), nil
}

func (s *store) releasesOf(run string) []*Node {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.held.byRun[run])
}
