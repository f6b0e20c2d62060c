package connector

import (
	"context"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/login"
	"github.com/AlaudaDevops/countersign/pkg/operation"
)

// inspect looks at everything that the connector needs. Messages never hold anything of a Secret but its name
// and the names of keys.
func (c *Controller) inspect(ctx context.Context, connector *connectorsv1alpha1.Connector) finding {
	if f := inspectSpec(connector); !f.ready() {
		return f
	}
	if f := c.inspectService(ctx, connector); !f.ready() {
		return f
	}
	ca, f := c.readCA(ctx, connector)
	if !f.ready() {
		return f
	}
	credential, f := c.readLogin(ctx, connector)
	if !f.ready() || credential == nil {
		return f
	}
	return c.inspectIdentity(ctx, connector, credential, ca)
}

// inspectSpec finds what the schema cannot.
func inspectSpec(connector *connectorsv1alpha1.Connector) finding {
	for i, o := range connector.Spec.Operations {
		if _, err := operation.NewHTTPMatch(o.Methods, o.Paths); err != nil {
			return fault(approvalv1alpha1.ReasonInvalidSpec, fmt.Sprintf("spec.operations[%d] cannot be read, so it counts as a write: %v", i, err))
		}
	}
	for _, r := range secretRefs(connector) {
		if r.ref.Namespace != "" && r.ref.Namespace != connector.Namespace {
			return fault(approvalv1alpha1.ReasonInvalidSpec, fmt.Sprintf(
				"%s names a Secret of namespace %s; a connector uses Secrets of its own namespace only: copy it to %s", r.field, r.ref.Namespace, connector.Namespace))
		}
	}
	return finding{}
}

type secretRef struct {
	field string
	ref   connectorsv1alpha1.SecretReference
}

func secretRefs(connector *connectorsv1alpha1.Connector) (refs []secretRef) {
	if auth := connector.Spec.Auth; auth != nil && auth.SecretRef != nil {
		refs = append(refs, secretRef{"spec.auth.secretRef", *auth.SecretRef})
	}
	if ref := connector.Spec.CACertSecretRef; ref != nil {
		refs = append(refs, secretRef{"spec.caCertSecretRef", *ref})
	}
	return refs
}

func (c *Controller) inspectService(ctx context.Context, connector *connectorsv1alpha1.Connector) finding {
	var service corev1.Service
	err := c.client.Get(ctx, client.ObjectKeyFromObject(c.service(connector)), &service)
	if err == nil && !metav1.IsControlledBy(&service, connector) {
		return fault(approvalv1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"the Service %s belongs to somebody else; delete it or give the connector another name", service.Name))
	}
	return finding{}
}

func (c *Controller) readCA(ctx context.Context, connector *connectorsv1alpha1.Connector) ([]byte, finding) {
	ref := connector.Spec.CACertSecretRef
	if ref == nil {
		return nil, finding{}
	}
	secret, f := c.secret(ctx, connector.Namespace, ref.Name)
	if !f.ready() {
		return nil, f
	}
	ca := secret.Data["ca.crt"]
	if !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return nil, fault(approvalv1alpha1.ReasonSecretInvalid, fmt.Sprintf(
			"the Secret %s holds no PEM certificate under the key ca.crt; put the certificate of the tool's authority there", ref.Name))
	}
	return ca, finding{}
}

func (c *Controller) readLogin(ctx context.Context, connector *connectorsv1alpha1.Connector) (*login.Credential, finding) {
	auth := connector.Spec.Auth
	if auth == nil || auth.SecretRef == nil {
		return nil, finding{}
	}
	secret, f := c.secret(ctx, connector.Namespace, auth.SecretRef.Name)
	if !f.ready() {
		return nil, f
	}
	credential, err := login.Read(secret)
	if err != nil {
		return nil, fault(approvalv1alpha1.ReasonSecretInvalid, fmt.Sprintf("the Secret %s %v", secret.Name, err))
	}
	return credential, finding{}
}

func (c *Controller) secret(ctx context.Context, namespace, name string) (*corev1.Secret, finding) {
	var secret corev1.Secret
	err := c.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fault(approvalv1alpha1.ReasonSecretMissing, fmt.Sprintf("the Secret %s does not exist in namespace %s; make it", name, namespace))
	case err != nil:
		return nil, fault(approvalv1alpha1.ReasonSecretMissing, fmt.Sprintf("the Secret %s cannot be read now; it is tried again in %s", name, recheckNotReady))
	}
	return &secret, finding{}
}
