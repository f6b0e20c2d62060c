package request

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/archive"
	"github.com/AlaudaDevops/countersign/pkg/decision"
)

// reconcileEnded closes what is still open, and deletes what is old enough. The status stays as it is.
func (c *Controller) reconcileEnded(ctx context.Context, request *approvalv1alpha1.ResourceCheckRequest) (ctrl.Result, error) {
	c.reasks.forget(request.UID)
	s := &observation{FoldInput: decision.FoldInput{Request: request, Now: c.Clock.Now()}}
	for _, live := range c.children.of(request.UID) {
		s.Strays = append(s.Strays, c.stray(live))
	}
	plan := decision.Fold(&s.FoldInput)
	if err := c.cancel(ctx, plan.Cancel, string(request.UID)); err != nil {
		return ctrl.Result{}, err
	}
	if request.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if due := request.Status.Ended.At.Add(c.options.Retention); c.Clock.Now().Before(due) {
		return ctrl.Result{RequeueAfter: c.until(due)}, nil
	}
	return c.retire(ctx, request.UID, request)
}

// retire writes evidence, then deletes checks and request, in this order: after a stop in between, what is left is
// written once more. Checks own the answers to them.
func (c *Controller) retire(ctx context.Context, uid types.UID, request *approvalv1alpha1.ResourceCheckRequest) (ctrl.Result, error) {
	if !c.children.synced() {
		return ctrl.Result{RequeueAfter: retryUnobserved}, nil
	}
	record, err := c.evidence(ctx, uid, request, archive.OccasionRetention)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := c.keeper.write(record, about(request, record)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "evidence was not written")
		return ctrl.Result{RequeueAfter: retryArchive}, nil
	}
	return ctrl.Result{}, c.deleteAll(ctx, record)
}

// about is what an event on the archive regards: the request, or one of the checks that are left of it.
func about(request *approvalv1alpha1.ResourceCheckRequest, record *archive.Record) runtime.Object {
	if request == nil && len(record.Checks) > 0 {
		return record.Checks[0]
	}
	return request
}

func (c *Controller) deleteAll(ctx context.Context, record *archive.Record) error {
	for _, check := range record.Checks {
		if err := c.deleteEvidence(ctx, metadataOf(check)); err != nil {
			return err
		}
	}
	if record.Request == nil {
		return nil
	}
	return c.deleteEvidence(ctx, record.Request)
}

func (c *Controller) deleteEvidence(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	err := c.Client.Delete(ctx, obj, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("%s/%s cannot be deleted after its evidence was written: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	return nil
}

func metadataOf(check *unstructured.Unstructured) client.Object {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(check.GroupVersionKind())
	m.SetNamespace(check.GetNamespace())
	m.SetName(check.GetName())
	m.SetUID(check.GetUID())
	return m
}

// reconcileUID looks after the checks of a request that is not in the cache: it is there no more, or not yet.
func (c *Controller) reconcileUID(ctx context.Context, uid types.UID) (ctrl.Result, error) {
	known, err := c.byUID(ctx, uid)
	if err != nil {
		return ctrl.Result{}, err
	}
	if known != nil {
		if q := c.queue.Get(); q != nil {
			q.Add(keyFor(known))
		}
		return ctrl.Result{}, nil
	}
	last := c.keeper.lastOf(uid)
	if last == nil {
		exists, err := c.exists(ctx, uid)
		if err != nil || exists {
			return ctrl.Result{RequeueAfter: retryUnobserved}, err
		}
	}
	return c.reconcileOrphans(ctx, uid, last)
}

// exists asks the API server for a request whose deletion this process has not seen: it may be new.
func (c *Controller) exists(ctx context.Context, uid types.UID) (bool, error) {
	if len(c.children.of(uid)) == 0 {
		return false, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(approvalv1alpha1.GroupVersion.WithKind("ResourceCheckRequestList"))
	for {
		if err := c.Live.List(ctx, list, client.Limit(500), client.Continue(list.Continue)); err != nil {
			return false, fmt.Errorf("requests cannot be listed: %w", err)
		}
		for i := range list.Items {
			if list.Items[i].UID == uid {
				return true, nil
			}
		}
		if list.Continue == "" {
			return false, nil
		}
	}
}

// reconcileOrphans closes the open checks of a deleted request, writes its evidence, and deletes its other checks after
// the retention time.
func (c *Controller) reconcileOrphans(ctx context.Context, uid types.UID, last *approvalv1alpha1.ResourceCheckRequest) (ctrl.Result, error) {
	c.reasks.forget(uid)
	c.own.forget(uid)
	if last != nil && c.keeper.doneOn(uid) == "" {
		record, err := c.evidence(ctx, uid, last, archive.OccasionDeleted)
		if err != nil {
			return ctrl.Result{}, err
		}
		if err := c.keeper.write(record, last); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "evidence was not written")
			return ctrl.Result{RequeueAfter: retryArchive}, nil
		}
	}
	left := c.children.of(uid)
	if len(left) == 0 {
		c.keeper.forget(uid)
		return ctrl.Result{}, nil
	}
	if c.keeper.doneOn(uid) == archive.OccasionRetention {
		// They are deleted already; each of them comes here once more when it is gone.
		return ctrl.Result{}, nil
	}
	var refs []approvalv1alpha1.CheckReference
	var newest time.Time
	for _, check := range left {
		refs = append(refs, refTo(check, ""))
		if at := check.GetCreationTimestamp().Time; at.After(newest) {
			newest = at
		}
	}
	if err := c.cancel(ctx, refs, string(uid)); err != nil {
		return ctrl.Result{}, err
	}
	if due := newest.Add(c.options.Retention); c.Clock.Now().Before(due) {
		return ctrl.Result{RequeueAfter: c.until(due)}, nil
	}
	return c.retire(ctx, uid, nil)
}
