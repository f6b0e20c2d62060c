package admit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Set puts a typed value into one field, so that the rest of the object stays as the client wrote it: a duration of
// "90m" must not become "1h30m0s" by passing through here.
func Set(u *unstructured.Unstructured, value any, path ...string) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("cannot write %v: %w", path, err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return fmt.Errorf("cannot write %v: %w", path, err)
	}
	if plain == nil {
		unstructured.RemoveNestedField(u.Object, path...)
		return nil
	}
	return unstructured.SetNestedField(u.Object, plain, path...)
}

// PutBack gives a field of the object what the old one has there and it lacks, recursively: the writer is a tool that
// does not know these fields, and means well. What it has but differs stays, for the validating step to refuse.
func PutBack(u, old *unstructured.Unstructured, field string) {
	kept, found := old.Object[field]
	if !found {
		return
	}
	present, found := u.Object[field]
	if !found || present == nil {
		u.Object[field] = runtime.DeepCopyJSONValue(kept)
		return
	}
	putBack(present, kept)
}

func putBack(present, kept any) {
	to, isObject := present.(map[string]any)
	from, wasObject := kept.(map[string]any)
	if !isObject || !wasObject {
		return
	}
	for name, value := range from {
		if there, found := to[name]; !found || there == nil {
			to[name] = runtime.DeepCopyJSONValue(value)
			continue
		}
		putBack(to[name], value)
	}
}

// Untouched compares an object with the one that the mutating step would make of it, field by field, and names the
// first that differs.
func Untouched(have, want *unstructured.Unstructured, fields [][]string) error {
	for _, path := range fields {
		is, _, _ := unstructured.NestedFieldNoCopy(have.Object, path...)
		shouldBe, _, _ := unstructured.NestedFieldNoCopy(want.Object, path...)
		if !equality.Semantic.DeepEqual(is, shouldBe) {
			return Invalid(strings.Join(path, "."), "the server sets it, and another admission webhook or the client changed it: leave it alone")
		}
	}
	return nil
}

// ClearOwnership takes owner references and finalizers away: a dead owner reference would have the object collected,
// a finalizer would keep it for ever.
func ClearOwnership(u *unstructured.Unstructured) {
	u.SetOwnerReferences(nil)
	u.SetFinalizers(nil)
}

// KeepOwnership puts owner references back as they were, unless garbage collection changes them. Finalizers may only go:
// garbage collection sets its own by other ways and removes them by an update.
func KeepOwnership(u, old *unstructured.Unstructured, caller *Caller) {
	if !slices.Contains(collectors, caller.Username) {
		u.SetOwnerReferences(old.GetOwnerReferences())
	}
	before := old.GetFinalizers()
	var kept []string
	for _, finalizer := range u.GetFinalizers() {
		if slices.Contains(before, finalizer) {
			kept = append(kept, finalizer)
		}
	}
	u.SetFinalizers(kept)
}

// GainsOwner tells that garbage collection could delete an object where it could not before: once every owner that it names
// is gone, or was never there.
func GainsOwner(now, before metav1.Object) bool {
	return slices.ContainsFunc(now.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return !slices.ContainsFunc(before.GetOwnerReferences(), func(had metav1.OwnerReference) bool { return had.UID == owner.UID })
	})
}

// collectors are the names of garbage collection: the controller manager runs it under an account of its own or not.
var collectors = []string{"system:serviceaccount:kube-system:generic-garbage-collector", "system:kube-controller-manager"}

// SetLabels sets labels of the server; an empty value takes the label away.
func SetLabels(u *unstructured.Unstructured, labels map[string]string) {
	present := u.GetLabels()
	if present == nil {
		present = map[string]string{}
	}
	for name, value := range labels {
		if value == "" {
			delete(present, name)
			continue
		}
		present[name] = value
	}
	if len(present) == 0 {
		present = nil
	}
	u.SetLabels(present)
}

// KeepLabels puts labels of the server back as they were.
func KeepLabels(u, old *unstructured.Unstructured, names ...string) {
	before := old.GetLabels()
	kept := map[string]string{}
	for _, name := range names {
		kept[name] = before[name]
	}
	SetLabels(u, kept)
}

// Unchanged refuses an update that changes the spec.
func Unchanged(u, old *unstructured.Unstructured, message string) error {
	if !equality.Semantic.DeepEqual(u.Object["spec"], old.Object["spec"]) {
		return Invalid("spec", message)
	}
	return nil
}
