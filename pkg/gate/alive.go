package gate

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/AlaudaDevops/countersign/pkg/origin"
)

// errGone is what an error Is when the object that a token is bound to does not exist any more.
var errGone = errors.New("gone")

// obituary tells an object that is gone from one that the watch has not delivered yet, by asking the API
// server once. A UID never comes back, so the answer gone is kept.
type obituary struct {
	live   origin.Source
	dead   *lru.Cache
	flight singleflight.Group
}

func newObituary(live origin.Source) *obituary {
	return &obituary{live: live, dead: lru.New(8192)}
}

// Check is called when the cache does not hold an object. The error Is errGone or origin.ErrUnobserved, never
// nil.
func (o *obituary) Check(ctx context.Context, kind schema.GroupKind, namespace, name string, uid types.UID) error {
	gone := fmt.Errorf("%s %s/%s is %w", kind.Kind, namespace, name, errGone)
	if _, ok := o.dead.Get(uid); ok {
		return gone
	}
	result := o.flight.DoChan(string(uid), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveTimeout)
		defer cancel()
		return o.live.Get(ctx, kind, namespace, name)
	})
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s %s/%s is %w", kind.Kind, namespace, name, origin.ErrUnobserved)
	case r := <-result:
		node, _ := r.Val.(*origin.Node)
		if errors.Is(r.Err, origin.ErrNotFound) || r.Err == nil && node.UID != uid {
			o.dead.Add(uid, nil)
			return gone
		}
		return fmt.Errorf("%s %s/%s is %w", kind.Kind, namespace, name, origin.ErrUnobserved)
	}
}
