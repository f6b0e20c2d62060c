// Package connector says whether connectors can be used, keeps the Service of each, and shows the identity
// behind its credentials.
package connector

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/controller/status"
)

// How often a connector is looked at again: nothing tells when its Secret or the rights of its identity
// change, because Secrets are read by name and never watched.
const (
	recheckReady    = 5 * time.Minute
	recheckNotReady = 15 * time.Second
)

// Options are what the operator may set.
type Options struct {
	// Namespace is that of the system; ProxyService is the proxy's Service in it.
	Namespace, ProxyService string
	// ProxyURL is the base URL under which people reach the proxy; empty means by host name inside the cluster.
	ProxyURL string
	// Timeout bounds each call to a tool.
	Timeout time.Duration
}

// Controller reconciles connectors.
type Controller struct {
	clock    clock.PassiveClock
	client   client.Client
	reader   client.Reader // uncached: the controller may get Secrets, not list or watch them
	recorder events.EventRecorder
	options  Options
}

// NewController returns a Controller. reader must not be a cache.
func NewController(clock clock.PassiveClock, c client.Client, reader client.Reader, recorder events.EventRecorder, options Options) *Controller {
	return &Controller{clock: clock, client: c, reader: reader, recorder: recorder, options: options}
}

// Register adds the controller to the manager.
func (c *Controller) Register(_ context.Context, mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("connector").
		For(&connectorsv1alpha1.Connector{}).
		Owns(&corev1.Service{}).
		Complete(c)
}

// Reconcile brings Service and status of one connector up to date.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var connector connectorsv1alpha1.Connector
	if err := c.client.Get(ctx, req.NamespacedName, &connector); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !connector.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if err := c.keepService(ctx, &connector); err != nil {
		return ctrl.Result{}, fmt.Errorf("service of connector %s: %w", req.NamespacedName, err)
	}
	found := c.inspect(ctx, &connector)
	if err := c.writeStatus(ctx, &connector, found); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: found.recheck()}, nil
}

func (c *Controller) writeStatus(ctx context.Context, connector *connectorsv1alpha1.Connector, found finding) error {
	next := c.nextStatus(connector, found)
	if equality.Semantic.DeepEqual(&connector.Status, &next) {
		return nil
	}
	written, err := status.TryApply(ctx, c.client, connector, &next)
	if written {
		c.announce(connector, found)
	}
	return err
}

// keepService makes the connector's name resolve to the proxy inside the cluster.
func (c *Controller) keepService(ctx context.Context, connector *connectorsv1alpha1.Connector) error {
	want := c.service(connector)
	var have corev1.Service
	err := c.client.Get(ctx, client.ObjectKeyFromObject(want), &have)
	switch {
	case apierrors.IsNotFound(err):
		return client.IgnoreAlreadyExists(c.client.Create(ctx, want))
	case err != nil:
		return err
	case !metav1.IsControlledBy(&have, connector):
		return nil // somebody else's Service of that name is not ours to change; inspect says so
	case have.Spec.Type == want.Spec.Type && have.Spec.ExternalName == want.Spec.ExternalName:
		return nil
	}
	have.Spec.Type, have.Spec.ExternalName = want.Spec.Type, want.Spec.ExternalName
	return c.client.Update(ctx, &have)
}

func (c *Controller) service(connector *connectorsv1alpha1.Connector) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: connector.Namespace, Name: serviceName(connector),
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(connector, connectorsv1alpha1.GroupVersion.WithKind(connectorsv1alpha1.KindConnector)),
			},
		},
		Spec: corev1.ServiceSpec{
			Type:         corev1.ServiceTypeExternalName,
			ExternalName: c.options.ProxyService + "." + c.options.Namespace + ".svc.cluster.local",
		},
	}
}

func serviceName(connector *connectorsv1alpha1.Connector) string { return "c-" + connector.Name }
