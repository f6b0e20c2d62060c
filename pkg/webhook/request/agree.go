package request

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/plaintext"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// maxShown bounds what refusals repeat of names, in characters.
const maxShown = 128

// same refuses a value that the client sent if it differs from the one that the server knows.
func same(field, sent, known string) error {
	if sent == "" || sent == known {
		return nil
	}
	if known == "" {
		return admit.Invalid(field, "the server knows of none here: leave it out")
	}
	return admit.Invalid(field, fmt.Sprintf("it is %s and not %s: leave it out, the server fills it in",
		plaintext.Quote(known, maxShown), plaintext.Quote(sent, maxShown)))
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func sameSubject(sent, known *approvalv1alpha1.Subject) error {
	if sent == nil {
		return nil
	}
	const field = "spec.context.subject."
	return first(
		same(field+"kind", string(sent.Kind), string(known.Kind)),
		same(field+"apiGroup", sent.APIGroup, known.APIGroup),
		same(field+"namespace", sent.Namespace, known.Namespace),
		same(field+"name", sent.Name, known.Name),
		same(field+"uid", sent.UID, known.UID),
	)
}

func samePod(sent, known *approvalv1alpha1.PodReference) error {
	if sent == nil {
		return nil
	}
	const field = "spec.context.pod."
	return first(
		same(field+"namespace", sent.Namespace, known.Namespace),
		same(field+"name", sent.Name, known.Name),
		same(field+"uid", string(sent.UID), string(known.UID)),
	)
}

// sameResource compares by group and kind: the client may know another version.
func sameResource(sent, known *approvalv1alpha1.ObjectReference) error {
	if sent == nil {
		return nil
	}
	const field = "spec.context.resource."
	sentKind := schema.FromAPIVersionAndKind(sent.APIVersion, sent.Kind).GroupKind()
	knownKind := schema.FromAPIVersionAndKind(known.APIVersion, known.Kind).GroupKind()
	return first(
		same(field+"kind", sentKind.String(), knownKind.String()),
		same(field+"namespace", sent.Namespace, known.Namespace),
		same(field+"name", sent.Name, known.Name),
		same(field+"uid", string(sent.UID), string(known.UID)),
	)
}

func sameToken(sent *approvalv1alpha1.TokenReference, jti string) error {
	if sent == nil {
		return nil
	}
	return same("spec.context.token.jti", sent.JTI, jti)
}
