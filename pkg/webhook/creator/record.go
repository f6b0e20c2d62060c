package creator

import (
	"context"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

// maxOwners is how many owner references are looked through, as in the policy.
const maxOwners = 100

// record is what an object's annotations must end with; an empty value stands for none.
type record map[string]string

// recordOf computes the record that the write leads to.
func (w *Webhook) recordOf(ctx context.Context, r *admit.Review) (record, error) {
	user := creatorName(&r.Caller)
	if r.Operation == admissionv1.Create {
		return record{
			approvalv1alpha1.AnnotationCreatedBy: user, approvalv1alpha1.AnnotationCreatedFor: controllerOf(r.Object),
			approvalv1alpha1.AnnotationChangedBy: user, approvalv1alpha1.AnnotationMigratedBy: "",
		}, nil
	}
	had := r.Old.GetAnnotations()
	result := record{}
	for _, key := range []string{
		approvalv1alpha1.AnnotationCreatedBy, approvalv1alpha1.AnnotationCreatedFor, approvalv1alpha1.AnnotationChangedBy, approvalv1alpha1.AnnotationMigratedBy,
	} {
		result[key] = had[key]
	}
	if setsContent(r) {
		result[approvalv1alpha1.AnnotationChangedBy] = user
	}
	migrates, err := w.migrates(ctx, r, user)
	if migrates {
		result[approvalv1alpha1.AnnotationCreatedBy] = r.Object.GetAnnotations()[approvalv1alpha1.AnnotationCreatedBy]
		result[approvalv1alpha1.AnnotationMigratedBy] = user
	}
	return result, err
}

// creatorName is the caller's exact name; empty if nobody was authenticated.
func creatorName(caller *admit.Caller) string {
	if caller.IsAnonymous() {
		return ""
	}
	return caller.Username
}

// controllerOf is the UID of the controller owner; empty if there is none, or too many owners to look through.
func controllerOf(u *unstructured.Unstructured) string {
	owners := u.GetOwnerReferences()
	if len(owners) > maxOwners {
		return ""
	}
	for i := range owners {
		if ptr.Deref(owners[i].Controller, false) {
			return string(owners[i].UID)
		}
	}
	return ""
}

// setsContent tells that an update changes the spec or, in kinds without one, something that is neither metadata nor
// status.
func setsContent(r *admit.Review) bool {
	if r.SubResource != "" {
		return false
	}
	now, before := r.Object.Object, r.Old.Object
	if _, has := now["spec"]; has {
		return differs(now, before, "spec")
	}
	if _, had := before["spec"]; had {
		return true
	}
	for _, fields := range []map[string]any{now, before} {
		for field := range fields {
			if !apart(field) && differs(now, before, field) {
				return true
			}
		}
	}
	return false
}

// apart are the fields of every kind that are no content.
func apart(field string) bool {
	return field == "apiVersion" || field == "kind" || field == "metadata" || field == "status"
}

func differs(now, before map[string]any, field string) bool {
	is, has := now[field]
	was, had := before[field]
	return has != had || !reflect.DeepEqual(is, was)
}

// migrates tells that somebody who may assigns a creator to an object that has none.
func (w *Webhook) migrates(ctx context.Context, r *admit.Review, user string) (bool, error) {
	if r.SubResource != "" || user == "" || r.Old.GetAnnotations()[approvalv1alpha1.AnnotationCreatedBy] != "" ||
		r.Object.GetAnnotations()[approvalv1alpha1.AnnotationCreatedBy] == "" {
		return false, nil
	}
	return w.holds(ctx, r, approvalv1alpha1.ResourceCreators, approvalv1alpha1.VerbMigrate)
}

// holds asks for a verb that only a ClusterRoleBinding conveys.
func (w *Webhook) holds(ctx context.Context, r *admit.Review, resource, verb string) (bool, error) {
	allowed, _, err := w.Access.Allowed(ctx, r.Caller.UserInfo, authz.ResourceAttributes{
		Group: approvalv1alpha1.AuthorityGroup, Version: "*", Resource: resource, Verb: verb,
	})
	if err != nil {
		return false, admit.Unavailable("it cannot be told now whether you may "+verb+" "+resource+": try again in a moment", err)
	}
	return allowed, nil
}

// write sets the record in the object.
func (want record) write(u *unstructured.Unstructured) {
	have, changed := u.GetAnnotations(), false
	if have == nil {
		have = map[string]string{}
	}
	for key, value := range want {
		is, found := have[key]
		switch {
		case value == "" && found:
			delete(have, key)
		case is != value:
			have[key] = value
		default:
			continue
		}
		changed = true
	}
	if changed {
		u.SetAnnotations(have)
	}
}

// isIn tells whether the object has the record.
func (want record) isIn(u *unstructured.Unstructured) bool {
	have := u.GetAnnotations()
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}
