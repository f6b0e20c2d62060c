package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

const (
	namespaceProd   = "prod"
	registryUser    = "countersign"
	secretRegistry  = "prod-harbor"
	secretK8s       = "prod-k8s"
	secretToolsCA   = "tools-ca"
	accountK8s      = "prod-k8s"
	toolTokenTTL    = 365 * 24 * time.Hour // longer than any development environment lives
	keyCA           = "ca.crt"
	keyBearerToken  = "token"
	namespacePublic = "kube-public"
)

// ensureSecret returns the Secret in prod, which is made when it is missing. One that is there is kept: it is
// the only place that holds what it holds.
func (e *environment) ensureSecret(ctx context.Context, name string, kind corev1.SecretType, content func() (map[string][]byte, error)) (*corev1.Secret, error) {
	secrets := e.cluster.Client().CoreV1().Secrets(namespaceProd)
	found, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return found, err
	}
	data, err := content()
	if err != nil {
		return nil, err
	}
	return secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, Data: data,
	}, metav1.CreateOptions{})
}

// startRegistry starts the registry with the password that only the connector's Secret holds.
func (e *environment) startRegistry(ctx context.Context) error {
	secret, err := e.ensureSecret(ctx, secretRegistry, corev1.SecretTypeBasicAuth, func() (map[string][]byte, error) {
		return map[string][]byte{
			corev1.BasicAuthUsernameKey: []byte(registryUser),
			corev1.BasicAuthPasswordKey: []byte(rand.Text()),
		}, nil
	})
	if err != nil {
		return fmt.Errorf("the registry's password cannot be kept: %w", err)
	}
	user, password := string(secret.Data[corev1.BasicAuthUsernameKey]), string(secret.Data[corev1.BasicAuthPasswordKey])
	_, err = e.cluster.StartRegistry(ctx, e.registryData(), user, password)
	return err
}

// ensureToolSecrets makes what the connectors need to reach their tools.
func (e *environment) ensureToolSecrets(ctx context.Context) error {
	_, err := e.ensureSecret(ctx, secretToolsCA, corev1.SecretTypeOpaque, func() (map[string][]byte, error) {
		return map[string][]byte{keyCA: e.cluster.CA().CertPEM()}, nil
	})
	if err != nil {
		return err
	}
	_, err = e.ensureSecret(ctx, secretK8s, connectorsv1alpha1.SecretTypeBearerToken, func() (map[string][]byte, error) {
		token, err := e.accountToken(ctx, namespaceProd, accountK8s, toolTokenTTL)
		return map[string][]byte{keyBearerToken: []byte(token)}, err
	})
	return err
}
