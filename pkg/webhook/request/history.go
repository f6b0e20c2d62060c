package request

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/decision"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// history is what was asked before with the same fingerprint.
type history struct {
	request *approvalv1alpha1.ResourceCheckRequest
	// equals are the other requests of the fingerprint, of any use, in any namespace and state.
	equals []*approvalv1alpha1.ResourceCheckRequest
}

// readHistory lists live, because a list that lags would let the same question be asked twice. The label finds
// candidates; what they ask is read from their specs.
func (w *Webhook) readHistory(ctx context.Context, question *fingerprint.Input, req *approvalv1alpha1.ResourceCheckRequest) (*history, error) {
	keys := fingerprint.Keys(question)
	values := make([]string, len(keys))
	for i, key := range keys {
		values[i] = key.String()
	}
	selector, err := labels.NewRequirement(approvalv1alpha1.LabelFingerprint, selection.In, values)
	if err != nil {
		return nil, err
	}
	options := []client.ListOption{client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*selector)}}
	if question.Resource != nil {
		// Requests for a run are in the run's namespace only; a person may ask anywhere.
		options = append(options, client.InNamespace(req.Namespace))
	}
	var list approvalv1alpha1.ResourceCheckRequestList
	if err := w.Live.List(ctx, &list, options...); err != nil {
		return nil, admit.Unavailable("it cannot be told now what was asked before: try again in a moment", err)
	}
	h := &history{request: req}
	for i := range list.Items {
		in := fingerprint.FromRequest(&list.Items[i].Spec)
		if slices.Contains(keys, fingerprint.Sum(&in)) {
			h.equals = append(h.equals, &list.Items[i])
		}
	}
	return h, nil
}

// leader is the live request that already asks the same, nil if none does.
func (h *history) leader(now time.Time) *approvalv1alpha1.ResourceCheckRequest {
	newest := h.request.DeepCopy()
	newest.Status = approvalv1alpha1.ResourceCheckRequestStatus{}
	newest.CreationTimestamp = metav1.NewTime(now.Add(time.Hour))
	return decision.Leader(newest, h.equals, now)
}

// forbids tells why the question may not be asked again now. A rejection is final for programs that would ask the owners
// again and again.
func (h *history) forbids(driven bool, now time.Time) error {
	if held := h.heldBack(now); held != nil {
		return admit.Because(approvalv1alpha1.ReasonRevoked, fmt.Sprintf(
			"an owner took the approval of %s/%s back, which holds the same question back until %s: talk to the owner (%s)",
			held.Namespace, held.Name, held.Status.Ended.HoldUntil.UTC().Format(time.RFC3339), plaintext.Line(held.Status.Ended.Message, maxMessage)))
	}
	if !driven || h.leader(now) != nil {
		return nil
	}
	if last := h.standingRejection(); last != nil {
		return admit.Because(approvalv1alpha1.ReasonChecksRejected, fmt.Sprintf(
			"%s/%s was rejected, which is final for the pods and tasks of this run: who started the run may ask anew (%s)",
			last.Namespace, last.Name, plaintext.Line(last.Status.Ended.Message, maxMessage)))
	}
	return nil
}

// maxMessage bounds what refusals repeat of recorded messages, in characters.
const maxMessage = 512

func (h *history) heldBack(now time.Time) *approvalv1alpha1.ResourceCheckRequest {
	for _, r := range h.equals {
		if ended := r.Status.Ended; ended != nil && ended.HoldUntil != nil && ended.HoldUntil.After(now) {
			return r
		}
	}
	return nil
}

// standingRejection is the last rejection, unless a person asked anew since. What programs ask for and end meanwhile, such
// as another use, lifts no rejection.
func (h *history) standingRejection() *approvalv1alpha1.ResourceCheckRequest {
	var last *approvalv1alpha1.ResourceCheckRequest
	for _, r := range h.equals {
		rejected := r.Status.Ended != nil && r.Status.Ended.Reason == approvalv1alpha1.ReasonChecksRejected
		if rejected && (last == nil || r.Status.Ended.At.After(last.Status.Ended.At.Time)) {
			last = r
		}
	}
	if last != nil && slices.ContainsFunc(h.equals, func(r *approvalv1alpha1.ResourceCheckRequest) bool {
		by := r.Spec.RequestedBy
		return by != nil && !admit.IsServiceAccount(by.Username) && r.CreationTimestamp.After(last.Status.Ended.At.Time)
	}) {
		return nil
	}
	return last
}

// name is that of the live request that asks just the same, if there is one, so that the API server answers with its
// name. Otherwise it follows from the last one that ended, because the name of an ended request is taken.
func (h *history) name(key fingerprint.Key, spec *approvalv1alpha1.ResourceCheckRequestSpec, now time.Time) string {
	use, timeRange := fingerprint.UseText(spec.Use), fingerprint.TimeRangeText(spec.TimeRange)
	live, ended := "", map[string]types.UID{}
	var last lastEnd
	for _, r := range h.named(use, timeRange) {
		_, at, over := decision.Ended(r, now)
		switch {
		case over:
			ended[r.Name] = r.UID
			last.take(r, at)
		case live == "" || r.Name < live:
			live = r.Name
		}
	}
	if live != "" {
		return live
	}
	name := fingerprint.RequestName(key, use, timeRange, string(last.uid))
	for taken, ok := ended[name]; ok; taken, ok = ended[name] {
		delete(ended, name)
		name = fingerprint.RequestName(key, use, timeRange, string(taken))
	}
	return name
}

// named are the requests of this namespace that the server named and that ask just the same.
func (h *history) named(use, timeRange string) []*approvalv1alpha1.ResourceCheckRequest {
	var named []*approvalv1alpha1.ResourceCheckRequest
	for _, r := range h.equals {
		if r.Namespace == h.request.Namespace && strings.HasPrefix(r.Name, approvalv1alpha1.ReservedNamePrefix) &&
			fingerprint.UseText(r.Spec.Use) == use && fingerprint.TimeRangeText(r.Spec.TimeRange) == timeRange {
			named = append(named, r)
		}
	}
	return named
}

// lastEnd finds the request that ended last; times have the precision of a second, so UIDs settle ties.
type lastEnd struct {
	at  time.Time
	uid types.UID
}

func (l *lastEnd) take(r *approvalv1alpha1.ResourceCheckRequest, at time.Time) {
	if l.uid == "" || at.After(l.at) || at.Equal(l.at) && r.UID > l.uid {
		l.at, l.uid = at, r.UID
	}
}
