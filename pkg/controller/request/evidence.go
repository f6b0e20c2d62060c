package request

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/archive"
	"github.com/AlaudaDevops/countersign/pkg/controller/announce"
)

// keeper writes evidence, and remembers of which requests it has.
type keeper struct {
	sink     archive.Sink
	recorder events.EventRecorder
	metrics  *metrics

	mu      sync.Mutex
	failing bool
	// last are requests that were deleted, as they were last seen; done is on which occasion evidence was written.
	last map[types.UID]*approvalv1alpha1.ResourceCheckRequest
	done map[types.UID]archive.Occasion
}

func newKeeper(sink archive.Sink, recorder events.EventRecorder, m *metrics) *keeper {
	return &keeper{
		sink: sink, recorder: recorder, metrics: m,
		last: map[types.UID]*approvalv1alpha1.ResourceCheckRequest{}, done: map[types.UID]archive.Occasion{},
	}
}

// remember keeps the last state of a deleted request while checks are left of it.
func (k *keeper) remember(request *approvalv1alpha1.ResourceCheckRequest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last[request.UID] = request
}

func (k *keeper) lastOf(uid types.UID) *approvalv1alpha1.ResourceCheckRequest {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[uid]
}

// doneOn is on which occasion evidence of a request was written last; empty if it was not.
func (k *keeper) doneOn(uid types.UID) archive.Occasion {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.done[uid]
}

func (k *keeper) forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.last, uid)
	delete(k.done, uid)
}

// write puts one record into the archive, and tells when the archive begins or ceases to fail.
func (k *keeper) write(record *archive.Record, about runtime.Object) error {
	line, err := record.Line()
	if err == nil {
		err = k.sink.Write(line)
	}
	if err != nil {
		k.metrics.archiveErrors.Inc()
	} else {
		k.metrics.archived.WithLabelValues(string(record.Occasion)).Inc()
	}
	k.turn(types.UID(record.RequestUID), record.Occasion, err, about)
	return err
}

func (k *keeper) turn(uid types.UID, occasion archive.Occasion, err error, about runtime.Object) {
	k.mu.Lock()
	changed := k.failing != (err != nil)
	k.failing = err != nil
	if err == nil {
		k.done[uid] = occasion
	}
	k.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		k.metrics.archiveFailing.Set(1)
		k.recorder.Eventf(about, nil, corev1.EventTypeWarning, reasonArchiveFailing, actionArchive, "%s", announce.Note(err.Error()))
	default:
		k.metrics.archiveFailing.Set(0)
		k.recorder.Eventf(about, nil, corev1.EventTypeNormal, reasonArchiveTakes, actionArchive, "the archive takes evidence again")
	}
}

// evidence gathers what there is of a request: it, its checks, and the answers to them. Checks that are gone are gone.
func (c *Controller) evidence(ctx context.Context, uid types.UID, request *approvalv1alpha1.ResourceCheckRequest, occasion archive.Occasion) (*archive.Record, error) {
	record := &archive.Record{At: metav1.NewTime(c.Clock.Now().UTC()), Occasion: occasion, RequestUID: string(uid), Request: request}
	found := map[types.UID]*unstructured.Unstructured{}
	for _, check := range c.children.of(uid) {
		found[check.GetUID()] = check
	}
	if request != nil {
		record.Ended = request.Status.Ended
		if err := c.addReferred(ctx, request, found); err != nil {
			return nil, err
		}
	}
	for _, check := range found {
		record.Checks = append(record.Checks, check)
	}
	slices.SortFunc(record.Checks, func(a, b *unstructured.Unstructured) int { return strings.Compare(describe(a), describe(b)) })
	record.Run = runOf(record.Checks)
	return record, c.addAnswers(ctx, record)
}

// addReferred reads the checks that the status names and no watch has: those of kinds that are not registered any more.
func (c *Controller) addReferred(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest, found map[types.UID]*unstructured.Unstructured) error {
	refs := slices.Clone(request.Status.RequestRefs)
	for i := range request.Status.Superseded {
		if ref := request.Status.Superseded[i].Check; ref != nil {
			refs = append(refs, *ref)
		}
	}
	for i := range refs {
		ref := &refs[i]
		if found[ref.UID] != nil {
			continue
		}
		live, err := c.liveCheck(ctx, schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), ref.Namespace, ref.ObjectName)
		if apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return err
		}
		if live != nil && live.GetUID() == ref.UID {
			found[ref.UID] = live
		}
	}
	return nil
}

func (c *Controller) addAnswers(ctx context.Context, record *archive.Record) error {
	for _, check := range record.Checks {
		var answers approvalv1alpha1.ApprovalResponseList
		if err := c.Client.List(ctx, &answers, client.InNamespace(check.GetNamespace()), client.MatchingFields{indexAnswered: string(check.GetUID())}); err != nil {
			return fmt.Errorf("answers cannot be listed: %w", err)
		}
		record.Answers = append(record.Answers, answers.Items...)
	}
	return nil
}

// runOf is the run with its creators, as the first check that tells of it was told.
func runOf(checks []*unstructured.Unstructured) []approvalv1alpha1.ContextHop {
	for _, check := range checks {
		hops, ok, err := unstructured.NestedSlice(check.Object, "spec", "request", "context")
		if err != nil || !ok {
			continue
		}
		var told struct {
			Hops []approvalv1alpha1.ContextHop `json:"hops"`
		}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"hops": hops}, &told) == nil && len(told.Hops) > 0 {
			return told.Hops
		}
	}
	return nil
}

// lastWords writes evidence of a request when its namespace, or that of its checks, begins to be deleted: afterwards
// nothing is left to write.
func (c *Controller) lastWords(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest) error {
	if c.keeper.doneOn(request.UID) != "" {
		return nil
	}
	for _, namespace := range []string{request.Namespace, objectNamespace(request)} {
		terminating, err := c.isTerminating(ctx, namespace)
		if err != nil {
			return err
		}
		if !terminating {
			continue
		}
		record, err := c.evidence(ctx, request.UID, request, archive.OccasionNamespaceDeleted)
		if err != nil {
			return err
		}
		return c.keeper.write(record, request)
	}
	return nil
}

func (c *Controller) isTerminating(ctx context.Context, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Client.Get(ctx, types.NamespacedName{Name: name}, namespace); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return namespace.DeletionTimestamp != nil, nil
}
