// Package late starts controllers once the kinds that they watch are installed. A watch of a kind that is not there ends
// the whole process after a while, so it must not begin before.
package late

import (
	"context"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// lookEvery is how often missing kinds are looked for.
const lookEvery = 10 * time.Second

// Start is what begins once every kind is installed; a manager runs it on the leader only.
type Start struct {
	Clock clock.WithTicker
	// Mapper must find kinds that were installed after it was made.
	Mapper apimeta.RESTMapper
	Kinds  []schema.GroupKind
	// Begin is called once. It must not wait for what it starts.
	Begin func(context.Context) error
}

// Start implements manager.Runnable.
func (s *Start) Start(ctx context.Context) error {
	ticker := s.Clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if s.installed(ctx) {
			return s.Begin(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

func (s *Start) installed(ctx context.Context) bool {
	for _, kind := range s.Kinds {
		_, err := s.Mapper.RESTMapping(kind)
		if err == nil {
			continue
		}
		if !apimeta.IsNoMatchError(err) {
			ctrl.LoggerFrom(ctx).Error(err, "a kind could not be looked up", "kind", kind.String())
		}
		return false
	}
	return true
}

// Register lets the manager begin once the kinds are installed.
func Register(mgr ctrl.Manager, clock clock.WithTicker, kinds []schema.GroupKind, begin func(context.Context) error) error {
	err := mgr.Add(&Start{Clock: clock, Mapper: mgr.GetRESTMapper(), Kinds: kinds, Begin: begin})
	if err != nil {
		return fmt.Errorf("what begins once its kinds are installed cannot be added: %w", err)
	}
	return nil
}
