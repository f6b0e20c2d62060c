package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/AlaudaDevops/countersign/config/policies"
	"github.com/AlaudaDevops/countersign/pkg/gate/guarded"
)

// epochOptions say where to look for the epoch.
type epochOptions struct {
	// creatorRecord is as the controller's flag; empty asks the cluster.
	creatorRecord string
	// namespace is where Countersign's controller keeps the epoch.
	namespace string
}

// Bounds of looking at the admission policies.
const (
	epochTimeout = 15 * time.Second
	epochPoll    = 50 * time.Millisecond
	// epochPatience is how long the epoch may take to appear once everything was read.
	epochPatience = 2 * time.Second
)

// readEpoch is since when creator records are believed. Zero means that none is, for the reason that comes with it.
func readEpoch(ctx context.Context, c *cluster, o epochOptions) (time.Time, string, error) {
	kube, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return time.Time{}, "", err
	}
	if why, err := mayReadEpoch(ctx, kube, o.namespace); why != "" || err != nil {
		return time.Time{}, why, err
	}
	webhook, err := o.webhook(ctx, kube)
	if err != nil {
		return time.Time{}, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, epochTimeout)
	defer cancel()
	watcher := guarded.NewWatcher(kube, policies.Options{CreatorWebhook: webhook})
	reader := guarded.NewEpochReader(kube, watcher, o.namespace)
	failed := make(chan error, 2)
	go func() { failed <- watcher.Start(ctx) }()
	go func() { failed <- reader.Start(ctx) }()
	since, why := awaitEpoch(ctx, watcher, reader)
	cancel()
	for range 2 {
		if err := <-failed; err != nil {
			return time.Time{}, "", err
		}
	}
	return since, why, nil
}

func (o epochOptions) validate() error {
	if o.creatorRecord != "" {
		if _, err := policies.CreatorWebhook(o.creatorRecord); err != nil {
			return usage("%s", err)
		}
	}
	if o.namespace == "" {
		return usage("--system-namespace is empty: name the namespace in which Countersign is installed")
	}
	return nil
}

// webhook tells that webhooks write the creator record. Which of both is looked for lets nothing through: the one that is
// not whole is not believed.
func (o epochOptions) webhook(ctx context.Context, kube kubernetes.Interface) (bool, error) {
	if o.creatorRecord != "" {
		return policies.CreatorWebhook(o.creatorRecord)
	}
	_, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, policies.CreatorRecord, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil, err
}

// mayReadEpoch looks first whether the caller may, because watches would only try again and again.
func mayReadEpoch(ctx context.Context, kube kubernetes.Interface, namespace string) (string, error) {
	_, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, guarded.EpochName, metav1.GetOptions{})
	if err == nil {
		_, err = kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(ctx, metav1.ListOptions{Limit: 1})
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("you may not read the admission policies, or the ConfigMap %s/%s, which say since when records can be believed", namespace, guarded.EpochName), nil
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("Countersign's controller has not written the ConfigMap %s/%s, which says since when records can be believed", namespace, guarded.EpochName), nil
	}
	return "", err
}

func awaitEpoch(ctx context.Context, watcher *guarded.Watcher, reader *guarded.EpochReader) (time.Time, string) {
	synced := func(context.Context) (bool, error) { return watcher.HasSynced() && reader.HasSynced(), nil }
	if wait.PollUntilContextCancel(ctx, epochPoll, true, synced) != nil {
		return time.Time{}, "the admission policies could not be read in time"
	}
	if ok, why := watcher.Guarded(); !ok {
		return time.Time{}, strings.TrimSuffix(why, ".")
	}
	// The epoch is handed on after it was read: a missing one is told only after a while.
	_ = wait.PollUntilContextTimeout(ctx, epochPoll, epochPatience, true, func(context.Context) (bool, error) {
		return !reader.Since().IsZero(), nil
	})
	if since := reader.Since(); !since.IsZero() {
		return since, ""
	}
	return time.Time{}, "the admission policies are not known to have been in force without a gap"
}
