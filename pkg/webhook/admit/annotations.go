package admit

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// SetAnnotations sets annotations of the server; an empty value takes the annotation away.
func SetAnnotations(u *unstructured.Unstructured, annotations map[string]string) {
	present := u.GetAnnotations()
	if asWanted(present, annotations) {
		return
	}
	if present == nil {
		present = map[string]string{}
	}
	maps.Copy(present, annotations)
	maps.DeleteFunc(present, func(name, value string) bool {
		_, ours := annotations[name]
		return ours && value == ""
	})
	if len(present) == 0 {
		present = nil
	}
	u.SetAnnotations(present)
}

// asWanted tells that nothing has to be written, so that an object stays as the client spelled it.
func asWanted(present, want map[string]string) bool {
	for name, value := range want {
		if have, found := present[name]; have != value || found != (value != "") {
			return false
		}
	}
	return true
}

// Readable refuses an object whose labels or annotations are no texts by name. The API server refuses it too, but a step
// that overwrites them would hide the mistake.
func Readable(u *unstructured.Unstructured) error {
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedNullCoercingStringMap(u.Object, "metadata", field); err != nil {
			return Invalid("metadata."+field, "it cannot be read: give texts by name, as `kubectl explain` describes the field")
		}
	}
	return nil
}

// IsOn tells whether a label of the object is exactly "true", the one value that switches something on.
func IsOn(object metav1.Object, label string) bool { return object.GetLabels()[label] == "true" }
