package certs

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Register runs the keeper on every replica, leader or not. It watches by name, in a cache of its own, because the
// controller may list no other Secrets.
func (k *Keeper) Register(_ context.Context, mgr ctrl.Manager) error {
	c, err := controller.New("webhook-certs", mgr, controller.Options{Reconciler: k, NeedLeaderElection: ptr.To(false)})
	if err != nil {
		return err
	}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })
	if err := c.Watch(source.Func(first)); err != nil {
		return err
	}
	for _, name := range k.options.Configurations {
		watched, err := k.cache(mgr, name)
		if err != nil {
			return fmt.Errorf("cannot watch the webhooks' certificate: %w", err)
		}
		for _, object := range watchedObjects() {
			if err := c.Watch(source.Kind(watched, object, enqueue)); err != nil {
				return err
			}
		}
		if err := mgr.Add(everywhere{watched}); err != nil {
			return err
		}
	}
	return nil
}

// everywhere runs a cache on every replica. One that is made for several kinds does not say that of itself, so the manager
// would run it on the leader only, and no other replica would ever have a certificate.
type everywhere struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

// first has a look taken at the start even if there is nothing yet that could change.
func first(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	queue.Add(reconcile.Request{})
	return nil
}

func watchedObjects() []client.Object {
	return []client.Object{
		&corev1.Secret{},
		&admissionregistrationv1.MutatingWebhookConfiguration{},
		&admissionregistrationv1.ValidatingWebhookConfiguration{},
	}
}

// cache is for the configurations of one name, because a watch takes one.
func (k *Keeper) cache(mgr ctrl.Manager, name string) (cache.Cache, error) {
	configuration := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	return cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {
				Namespaces: map[string]cache.Config{k.options.Namespace: {}},
				Field:      fields.OneTermEqualSelector("metadata.name", k.options.Secret),
			},
			&admissionregistrationv1.MutatingWebhookConfiguration{}:   configuration,
			&admissionregistrationv1.ValidatingWebhookConfiguration{}: configuration,
		},
	})
}
