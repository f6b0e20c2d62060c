package checks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// SpecDigest identifies what a check asks: "sha256:" and the hash of the spec as canonical JSON (sorted keys, no
// white space), without the fields that answering writes. It is empty, which equals no recorded digest, for a spec
// that is no JSON.
//
// The UID of the CheckKind enters for kinds that are not built in, because only a registered kind's statuses are guarded:
// what was asked under an earlier registration may have been answered by anybody in between, and never counts again.
func (k *Kind) SpecDigest(check *unstructured.Unstructured) string {
	spec, ok := check.Object["spec"]
	if !ok {
		spec = map[string]any{}
	}
	if len(k.answers) > 0 {
		spec = k.withoutAnswers(spec)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append([]byte(k.registration), text...))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (k *Kind) withoutAnswers(spec any) any {
	copied := map[string]any{"spec": runtime.DeepCopyJSONValue(spec)}
	for _, field := range k.answers {
		field.remove(copied)
	}
	return copied["spec"]
}
