package checks

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// reservedDomains are the prefixes of labels and annotations that say something about who asked and who answered. A
// template cannot set them.
var reservedDomains = []string{"approval.alaudadevops.io/", "attribution.alaudadevops.io/"}

// BuildInput is what one check is made from.
type BuildInput struct {
	// Namespace is the object's, Name is made by fingerprint.CheckName.
	Namespace, Name string
	// RequestUID is the UID of the request that asks.
	RequestUID types.UID
	Template   *approvalv1alpha1.CheckTemplate
	// Context goes into the annotation, and its names into the fields that the kind expands.
	Context *approvalv1alpha1.CheckContext
	// Question goes into the kind's field for it, if it has one.
	Question *approvalv1alpha1.CheckRequest
}

// Build makes a check from a rule's template: the template's spec with $(...) filled in where the kind allows it, the
// question in the kind's field, and the label and annotation that every check carries. The object is not created.
func (k *Kind) Build(in *BuildInput) (*unstructured.Unstructured, error) {
	spec, err := templateSpec(in.Template)
	if err != nil {
		return nil, err
	}
	check := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	expandFields(check.Object, k.expand, placeholders(in.Context))
	if err := k.putQuestion(check, in.Question); err != nil {
		return nil, err
	}
	check.SetGroupVersionKind(k.gvk)
	check.SetNamespace(in.Namespace)
	check.SetName(in.Name)
	return check, putMetadata(check, in)
}

func templateSpec(template *approvalv1alpha1.CheckTemplate) (map[string]any, error) {
	spec := map[string]any{}
	if len(template.Spec.Raw) == 0 {
		return spec, nil
	}
	if err := utiljson.Unmarshal(template.Spec.Raw, &spec); err != nil {
		return nil, fmt.Errorf("the template's spec is no JSON object: %w", err)
	}
	if spec == nil {
		spec = map[string]any{}
	}
	return spec, nil
}

func (k *Kind) putQuestion(check *unstructured.Unstructured, question *approvalv1alpha1.CheckRequest) error {
	if k.requestField == nil || question == nil {
		return nil
	}
	value, err := runtime.DefaultUnstructuredConverter.ToUnstructured(question)
	if err != nil {
		return fmt.Errorf("the question cannot be written as JSON: %w", err)
	}
	return k.requestField.set(check.Object, withoutNulls(value))
}

func putMetadata(check *unstructured.Unstructured, in *BuildInput) error {
	context, err := json.Marshal(in.Context)
	if err != nil {
		return fmt.Errorf("the context cannot be written as JSON: %w", err)
	}
	labels, annotations := map[string]string{}, map[string]string{}
	if m := in.Template.Metadata; m != nil {
		labels, annotations = allowed(m.Labels), allowed(m.Annotations)
	}
	labels[approvalv1alpha1.LabelRequestUID] = string(in.RequestUID)
	annotations[approvalv1alpha1.AnnotationContext] = string(context)
	check.SetLabels(labels)
	check.SetAnnotations(annotations)
	return nil
}

func allowed(from map[string]string) map[string]string {
	to := map[string]string{}
	maps.Copy(to, from)
	maps.DeleteFunc(to, func(key, _ string) bool { return isReserved(key) })
	return to
}

func isReserved(key string) bool {
	for _, domain := range reservedDomains {
		if strings.HasPrefix(key, domain) {
			return true
		}
	}
	return false
}

// withoutNulls drops the nulls that optional Go fields (times, raw JSON) are written as: a schema refuses a null where it
// allows absence.
func withoutNulls(object map[string]any) map[string]any {
	for key, value := range object {
		switch at := value.(type) {
		case nil:
			delete(object, key)
		case map[string]any:
			withoutNulls(at)
		case []any:
			for _, element := range at {
				if inner, ok := element.(map[string]any); ok {
					withoutNulls(inner)
				}
			}
		}
	}
	return object
}
