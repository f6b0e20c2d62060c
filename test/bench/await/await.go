// Package await waits for what other processes do, where the wait itself is not measured.
package await

import (
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
	if err != nil && last != nil {
		err = last
	}
	if err != nil {
		return fmt.Errorf("%s: it did not happen within %v: %w", what, patience, err)
	}
	return nil
}
