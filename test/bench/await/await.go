// Package await waits for what other processes do, where the wait itself is not measured.
package await

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	poll = 20 * time.Millisecond
	// patience bounds every wait.
	patience = 30 * time.Second
)

// Until waits until something holds. It fails with the last reason why it does not.
func Until(ctx context.Context, what string, holds func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		last = holds(ctx)
		return last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: nobody waits any longer: %w", what, context.Cause(ctx))
	}
	return fmt.Errorf("%s: it did not happen within %v: %w", what, patience, cmp.Or(last, err))
}
