package app

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/definition"
	"github.com/AlaudaDevops/countersign/pkg/gate/guarded"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// hasOwnReleases tells whether the Release kinds of the cluster are ours.
func hasOwnReleases(ctx context.Context, client dynamic.Interface) (bool, error) {
	found, err := client.Resource(definitions).Get(ctx, releasev1alpha1.DefinitionReleases, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("it cannot be told whether the cluster's Release kinds are those of Countersign: %w", err)
	}
	return definition.Ours(found), nil
}

// releaseKinds has the watcher want the policies of the Release kinds for as long as those kinds are ours.
type releaseKinds struct {
	client  dynamic.Interface
	watcher *guarded.Watcher
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica watches.
func (r *releaseKinds) NeedLeaderElection() bool { return false }

// Start watches until the context ends. It implements manager.Runnable.
func (r *releaseKinds) Start(ctx context.Context) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(r.client, 0, metav1.NamespaceAll, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, releasev1alpha1.DefinitionReleases).String()
	})
	if _, err := factory.ForResource(definitions).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.seen(object) },
		UpdateFunc: func(_, object any) { r.seen(object) },
		DeleteFunc: func(any) { r.watcher.WantReleases(false) },
	}); err != nil {
		return fmt.Errorf("the definition of the Release kinds cannot be watched: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	<-ctx.Done()
	return nil
}

func (r *releaseKinds) seen(object any) {
	if found, ok := object.(metav1.Object); ok {
		r.watcher.WantReleases(definition.Ours(found))
	}
}
