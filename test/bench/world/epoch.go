package world

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/AlaudaDevops/countersign/test/bench/await"
)

// epoch is where the controller writes since when creator records are believed.
var epoch = client.ObjectKey{Namespace: "countersign-system", Name: "countersign-epoch"}

// recorded waits until the creator of what is made from now on is believed. Creation times have the precision of a
// second, so what is made in the epoch's own second is not.
func (w *World) recorded(ctx context.Context) error {
	return await.Until(ctx, "creators are recorded", func(ctx context.Context) error {
		config := &corev1.ConfigMap{}
		if err := w.As(Admin).Get(ctx, epoch, config); err != nil {
			return err
		}
		since, err := time.Parse(time.RFC3339, config.Data["since"])
		if err != nil {
			return err
		}
		if !time.Now().Truncate(time.Second).After(since) {
			return fmt.Errorf("they are only from %v on", since)
		}
		return nil
	})
}
