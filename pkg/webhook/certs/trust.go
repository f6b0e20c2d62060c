package certs

import (
	"bytes"
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// trust has all webhook configurations trust the bundle. settled tells that they exist and did so before.
func (k *Keeper) trust(ctx context.Context, bundle []byte) (settled bool, err error) {
	settled = true
	for _, name := range k.options.Configurations {
		did, err := k.trustBoth(ctx, name, bundle)
		if err != nil {
			return false, err
		}
		settled = settled && did
	}
	return settled, nil
}

// trustBoth is for the mutating and the validating configuration of a name.
func (k *Keeper) trustBoth(ctx context.Context, name string, bundle []byte) (settled bool, err error) {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	settled, err = k.trustIn(ctx, name, mutating, bundle, func() (configs []*admissionregistrationv1.WebhookClientConfig) {
		for i := range mutating.Webhooks {
			configs = append(configs, &mutating.Webhooks[i].ClientConfig)
		}
		return configs
	})
	if err != nil {
		return false, err
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	also, err := k.trustIn(ctx, name, validating, bundle, func() (configs []*admissionregistrationv1.WebhookClientConfig) {
		for i := range validating.Webhooks {
			configs = append(configs, &validating.Webhooks[i].ClientConfig)
		}
		return configs
	})
	return settled && also, err
}

// trustIn reads one configuration and writes it if it lacks the bundle. A missing one is no error: it triggers the next
// look when it comes.
func (k *Keeper) trustIn(ctx context.Context, name string, configuration client.Object, bundle []byte,
	configs func() []*admissionregistrationv1.WebhookClientConfig,
) (settled bool, err error) {
	if err := k.client.Get(ctx, client.ObjectKey{Name: name}, configuration); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	before := configuration.DeepCopyObject().(client.Object)
	settled = true
	for _, config := range configs() {
		if k.isOurs(config) && !bytes.Equal(config.CABundle, bundle) {
			config.CABundle, settled = bundle, false
		}
	}
	if settled {
		return true, nil
	}
	patch := client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{})
	err = k.client.Patch(ctx, configuration, patch)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return false, err
}

// isOurs tells whether a webhook calls our Service. Others in the same configuration are not ours to change.
func (k *Keeper) isOurs(config *admissionregistrationv1.WebhookClientConfig) bool {
	return config.Service != nil && config.Service.Name == k.options.Service && config.Service.Namespace == k.options.Namespace
}
