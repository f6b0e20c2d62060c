package decision

import (
	"cmp"
	"slices"
	"strings"
	"time"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
)

// Leader is the request that this one follows, or nil if this one asks by itself. Equals are the other requests with
// its fingerprint, of any use and in any state.
//
// A request that follows stays with the one it follows, to end with it; if that is there no more, it looks for another.
// Otherwise the oldest live request of the same use asks, one that has asked before going first, because creation
// times have the precision of a second.
func Leader(request *approvalv1alpha1.ResourceCheckRequest, equals []*approvalv1alpha1.ResourceCheckRequest, now time.Time) *approvalv1alpha1.ResourceCheckRequest {
	if leader := followed(request, equals); leader != nil {
		return leader
	}
	first := request
	for _, other := range equals {
		if isLive(other, now) && fingerprint.UseText(other.Spec.Use) == fingerprint.UseText(request.Spec.Use) && goesBefore(other, first) {
			first = other
		}
	}
	if first == request {
		return nil
	}
	return first
}

func followed(request *approvalv1alpha1.ResourceCheckRequest, equals []*approvalv1alpha1.ResourceCheckRequest) *approvalv1alpha1.ResourceCheckRequest {
	follows := request.Status.Follows
	if follows == nil {
		return nil
	}
	for _, other := range equals {
		if other.UID == follows.UID && other.Status.Follows == nil {
			return other
		}
	}
	return nil
}

// isLive does not wait for the record of an end that the clock has brought.
func isLive(r *approvalv1alpha1.ResourceCheckRequest, now time.Time) bool {
	_, _, ended := Ended(r, now)
	return !ended && r.DeletionTimestamp == nil
}

func goesBefore(a, b *approvalv1alpha1.ResourceCheckRequest) bool {
	return cmp.Or(
		cmp.Compare(standing(a), standing(b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	) < 0
}

// standing puts requests that have asked first, and those that follow last.
func standing(r *approvalv1alpha1.ResourceCheckRequest) int {
	switch {
	case r.Status.Follows != nil:
		return 2
	case len(r.Status.RequestRefs) > 0 || r.Status.Validity != nil:
		return 0
	}
	return 1
}

// EndedKey is a text that changes with every request of one fingerprint that ends, for names that must differ from those
// of earlier asking. It does not rest on the time of the last end, because times have the precision of a second and two
// requests may well end within one.
func EndedKey(equals []*approvalv1alpha1.ResourceCheckRequest) string {
	var ended []string
	for _, r := range equals {
		if r.Status.Ended != nil {
			ended = append(ended, string(r.UID))
		}
	}
	slices.Sort(ended)
	return strings.Join(ended, " ")
}
