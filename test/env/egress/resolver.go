package egress

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
)

// resolved is how long a known cluster IP is not looked up again: long enough for a burst of
// webhook calls, short enough that a Service made anew under another name is found.
const resolved = time.Second

// Resolver names the Service that owns a cluster IP.
type Resolver interface {
	Service(ctx context.Context, clusterIP string) (types.NamespacedName, error)
}

// NewResolver returns a resolver that asks the API server.
func NewResolver(services corev1client.ServicesGetter, clk clock.PassiveClock) Resolver {
	return &resolver{services: services, clock: clk, known: map[string]owner{}}
}

type resolver struct {
	services corev1client.ServicesGetter
	clock    clock.PassiveClock

	mu    sync.Mutex
	known map[string]owner
}

type owner struct {
	name  types.NamespacedName
	until time.Time
}

func (r *resolver) Service(ctx context.Context, clusterIP string) (types.NamespacedName, error) {
	if name, ok := r.cached(clusterIP); ok {
		return name, nil
	}
	list, err := r.services.Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.clusterIP", clusterIP).String(),
	})
	if err != nil {
		return types.NamespacedName{}, fmt.Errorf("services cannot be listed to find cluster IP %s: %w", clusterIP, err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.ClusterIP == clusterIP {
			return r.keep(clusterIP, list.Items[i].ObjectMeta), nil
		}
	}
	return types.NamespacedName{}, fmt.Errorf("no Service has cluster IP %s", clusterIP)
}

func (r *resolver) cached(clusterIP string) (types.NamespacedName, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[clusterIP]
	return known.name, ok && r.clock.Now().Before(known.until)
}

func (r *resolver) keep(clusterIP string, service metav1.ObjectMeta) types.NamespacedName {
	name := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[clusterIP] = owner{name: name, until: r.clock.Now().Add(resolved)}
	return name
}
