package origin

import (
	"encoding/json"
	"slices"
	"strings"
	"unique"

	"github.com/tektoncd/pipeline/pkg/apis/pipeline"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// defaultServiceAccount is what pods and Tekton runs use that name none.
const defaultServiceAccount = "default"

// readRun fills in what depends on the kind. Kinds are told apart by group and kind; where Tekton's versions differ,
// both forms are read.
func (n *Node) readRun(u *unstructured.Unstructured) {
	o := u.Object
	switch n.Group + "/" + n.Kind {
	case "/Pod":
		n.ServiceAccounts = accounts(text(o, "spec", "serviceAccountName"))
		phase := text(o, "status", "phase")
		n.finish(phase == "Succeeded" || phase == "Failed", phase)
	case "batch/Job":
		n.ServiceAccounts = accounts(text(o, "spec", "template", "spec", "serviceAccountName"))
		n.finishJob(o)
	case pipeline.GroupName + "/PipelineRun":
		n.ServiceAccounts = pipelineRunAccounts(o)
		n.readTekton(o, "pipelineRef")
	case pipeline.GroupName + "/TaskRun":
		n.ServiceAccounts = accounts(text(o, "spec", "serviceAccountName"))
		n.readTekton(o, "taskRef")
	case pipeline.GroupName + "/CustomRun":
		n.ServiceAccounts = accounts(text(o, "spec", "serviceAccountName"))
		n.readTekton(o, "customRef")
	case releasev1alpha1.GroupVersion.Group + "/" + releasev1alpha1.KindRelease:
		n.readRelease(u)
	}
}

func (n *Node) finish(finished bool, why string) {
	if finished {
		n.Finished, n.FinishedWhy = true, unique.Make(why).Value()
	}
}

func (n *Node) finishJob(o map[string]any) {
	for _, kind := range []string{"Complete", "Failed"} {
		n.finish(condition(o, kind)["status"] == "True", kind)
	}
}

// readTekton reads what runs of Tekton have alike. Succeeded is True or False once they are done.
func (n *Node) readTekton(o map[string]any, refField string) {
	succeeded := condition(o, "Succeeded")
	reason, _ := succeeded["reason"].(string)
	n.finish(succeeded["status"] == "True" || succeeded["status"] == "False", reason)
	n.Pipeline = reference(o, refField)
	n.Parameters = parameters(o)
}

func accounts(own string, others ...string) []string {
	var all []string
	for _, name := range append([]string{own}, others...) {
		if name == "" {
			name = defaultServiceAccount
		}
		if name = unique.Make(name).Value(); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// pipelineRunAccounts are the run's own service account and those of single tasks, in v1 and in v1beta1.
func pipelineRunAccounts(o map[string]any) []string {
	own := text(o, "spec", "taskRunTemplate", "serviceAccountName")
	if own == "" {
		own = text(o, "spec", "serviceAccountName")
	}
	var others []string
	for _, task := range list(o, "spec", "taskRunSpecs") {
		for _, field := range []string{"serviceAccountName", "taskServiceAccountName"} {
			if name, _ := task[field].(string); name != "" {
				others = append(others, name)
			}
		}
	}
	return accounts(own, others...)
}

func reference(o map[string]any, field string) string {
	if name := text(o, "spec", field, "name"); name != "" {
		return bounded(name, maxPipeline)
	}
	resolver := text(o, "spec", field, "resolver")
	if resolver == "" {
		return ""
	}
	parts := []string{resolver}
	for _, param := range list(o, "spec", field, "params") {
		name, _ := param["name"].(string)
		parts = append(parts, name+"="+value(param["value"]))
	}
	return bounded(strings.Join(parts, " "), maxPipeline)
}

// Bounds of the API's schema, in characters.
const (
	maxPipeline   = 512
	maxParameters = 64
	maxParamName  = 253
	maxParamValue = 1024
)

// masked stands for the value of a parameter whose name sounds like a secret.
const masked = "***"

// secretWords make a parameter's name sound like a secret, wherever they stand in it. Masking too much costs an
// approver a look at the run; masking too little shows a secret to every approver.
var secretWords = []string{"password", "passwd", "passphrase", "pwd", "secret", "token", "credential", "apikey", "api-key",
	"api_key", "privatekey", "private-key", "private_key", "accesskey", "access-key", "access_key", "auth", "cookie", "cert"}

func parameters(o map[string]any) []approvalv1alpha1.Parameter {
	var params []approvalv1alpha1.Parameter
	for _, param := range list(o, "spec", "params") {
		if len(params) == maxParameters {
			break
		}
		name, _ := param["name"].(string)
		shown := masked
		if !soundsSecret(name) {
			shown = bounded(value(param["value"]), maxParamValue)
		}
		params = append(params, approvalv1alpha1.Parameter{Name: bounded(name, maxParamName), Value: shown})
	}
	return params
}

func soundsSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

// value is a parameter's value as text: strings as they are, lists and objects as JSON.
func value(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	encoded, err := json.Marshal(withoutSecrets(v))
	if err != nil {
		return ""
	}
	return string(encoded)
}

// withoutSecrets masks the fields of an object whose names sound like secrets. Tekton's parameters are one level deep.
func withoutSecrets(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	shown := make(map[string]any, len(object))
	for name, field := range object {
		shown[name] = field
		if soundsSecret(name) {
			shown[name] = masked
		}
	}
	return shown
}

// bounded cuts after a number of characters, never inside one, and says so.
func bounded(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const cut = "..."
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-len(cut)]) + cut
}

func text(o map[string]any, path ...string) string {
	s, _, err := unstructured.NestedString(o, path...)
	if err != nil {
		return ""
	}
	return s
}

// list is a list of objects; entries that are none are left out.
func list(o map[string]any, path ...string) []map[string]any {
	raw, _, err := unstructured.NestedFieldNoCopy(o, path...)
	if err != nil {
		return nil
	}
	entries, _ := raw.([]any)
	var objects []map[string]any
	for _, entry := range entries {
		if object, ok := entry.(map[string]any); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

func condition(o map[string]any, kind string) map[string]any {
	for _, c := range list(o, "status", "conditions") {
		if c["type"] == kind {
			return c
		}
	}
	return nil
}
