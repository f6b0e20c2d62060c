package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestEveryVerbHelps(t *testing.T) {
	root := New(genericiooptions.NewTestIOStreamsDiscard())
	verbs := leaves(root)
	for _, cmd := range verbs {
		name := strings.TrimPrefix(cmd.CommandPath(), displayName+" ")
		t.Run(name, func(t *testing.T) {
			assert.Contains(t, cmd.Example, displayName+" "+name, "an example")
			assert.NotContains(t, cmd.Example, "{{}}")
			for code, word := range commonCodes {
				assert.Regexp(t, fmt.Sprintf(`Exit codes: .*\b%d \w`, code), cmd.Long, word)
			}
			assert.True(t, strings.HasPrefix(cmd.UseLine(), "kubectl countersign "+name), cmd.UseLine())
			assert.NotNil(t, cmd.Args)
		})
	}
	assert.Greater(t, len(verbs), 8, "the walk must find the verbs")
}

// leaves are the commands that do something.
func leaves(cmd *cobra.Command) []*cobra.Command {
	var found []*cobra.Command
	for _, child := range cmd.Commands() {
		switch {
		case child.Name() == "help" || child.Name() == "completion":
		case child.HasSubCommands():
			found = append(found, leaves(child)...)
		default:
			found = append(found, child)
		}
	}
	return found
}

func TestHelpAndCompletion(t *testing.T) {
	b := makeBench(t)
	for _, args := range [][]string{{"--help"}, {}, {"approve", "--help"}, {"completion", "bash"}, {"help", "wait"}} {
		assert.Equal(t, ExitDone, b.run(args...), args)
		assert.NotEmpty(t, b.out.String())
		assert.NotContains(t, b.out.String(), "\x1b")
	}
}

func TestUsageErrors(t *testing.T) {
	tests := map[string]struct {
		args string
		want string
	}{
		"unknown verb":         {"bogus", `unknown command "bogus"`},
		"unknown flag":         {"list --bogus", "unknown flag: --bogus"},
		"unknown output":       {"list -o xml", "use one of json, name, wide, yaml"},
		"argument missing":     {"request", "give one KIND/NAME, not 0"},
		"argument too many":    {"wait a b", "give one NAME, not 2"},
		"argument to list":     {"list extra", "unknown command"},
		"no name":              {"approve", "give at least one NAME"},
		"no kind":              {"request prod-harbor", `"prod-harbor" is no KIND/NAME`},
		"not namespaced":       {"request node/n1", "belongs to no namespace"},
		"bad use":              {"request connector/x --use Delete", `"Delete" is neither Read nor Write`},
		"bad path":             {"request connector/x --paths v2", "must begin with /"},
		"bad duration":         {"request connector/x --for soon", "invalid duration"},
		"negative duration":    {"request connector/x --for=-1h", "positive duration"},
		"bad time":             {"request connector/x --after tomorrow", "write the time as"},
		"timeout without wait": {"request connector/x --timeout 1m", "--timeout goes with --wait"},
		"account without run":  {"request connector/x --service-account a", "--service-account goes with --run"},
		"run and token":        {"request connector/x --run job/a --token-jti b", "exclude each other"},
		"reject needs a word":  {"reject x", "--comment is needed"},
		"revoke needs a word":  {"revoke x", "--comment is needed"},
		"grant for on reject":  {"reject x --comment y --grant-for 1h", "unknown flag: --grant-for"},
		"negative grant":       {"approve x --grant-for=-1h", "positive duration"},
		"too many slashes":     {"wait a/b/c", `"a/b/c" is no name`},
		"negative timeout":     {"wait a --timeout=-1s", "positive duration"},
		"explain another kind": {"explain pod/x", `"pod/x" is no connector/NAME`},
		"explain groups alone": {"explain x --for-group g", "--for-group goes with --for-user"},
		"explain bad path":     {"explain x --path v2", "--path must begin with /"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := makeBench(t)
			assert.Equal(t, ExitUsage, b.run(strings.Fields(tt.args)...))
			assert.Contains(t, b.err.String(), tt.want)
			assert.Contains(t, b.err.String(), "--help' for usage and examples.")
			assert.Empty(t, b.out.String())
		})
	}
}

// status is what the API server answers.
func status(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

func TestErrorsOfTheServer(t *testing.T) {
	tests := map[string]struct {
		err  error
		code int
		want string
	}{
		"webhook": {status(403, "Forbidden", `admission webhook "r.countersign" denied the request: you have 10 requests open: end one`), ExitDenied,
			"you have 10 requests open: end one"},
		"webhook on a field": {status(422, "Invalid", `admission webhook "r.countersign" denied the request: spec.reason: say why you ask`), ExitDenied,
			"spec.reason: say why you ask"},
		"webhook without a word": {status(403, "Forbidden", `admission webhook "r.countersign" denied the request`), ExitDenied,
			"the API server refused without saying why"},
		"policy": {status(422, "Invalid", `resourcecheckrequests.approval.alaudadevops.io "x" is forbidden: ValidatingAdmissionPolicy 'countersign-status' with binding 'countersign-status' denied request: only the controller writes status`),
			ExitDenied, "only the controller writes status"},
		"schema": {status(422, "Invalid", `ResourceCheckRequest.approval.alaudadevops.io "rcr-1" is invalid: spec.reason: Too long: may not be more than 1024 bytes`),
			ExitError, "spec.reason: Too long: may not be more than 1024 bytes"},
		"rights": {status(403, "Forbidden", `resourcecheckrequests.approval.alaudadevops.io is forbidden: User "dev" cannot create resource "resourcecheckrequests" in API group "approval.alaudadevops.io" in the namespace "team-b"`),
			ExitDenied, "dev may not create resourcecheckrequests in namespace team-b: ask an owner of it for the right"},
		"rights in the cluster": {status(403, "Forbidden", `x is forbidden: User "dev" cannot list resource "approvalrequests" in API group "approval.alaudadevops.io" at the cluster scope`),
			ExitDenied, "dev may not list approvalrequests in any namespace: ask an administrator for the right"},
		"not found": {status(404, "NotFound", `resourcecheckrequests.approval.alaudadevops.io "rcr-1" not found`), ExitNotFound,
			`resourcecheckrequests "rcr-1" not found`},
		"logged out":   {status(401, "Unauthorized", "Unauthorized"), ExitError, "the API server does not know you: log in again"},
		"webhook down": {status(500, "InternalError", `Internal error occurred: failed calling webhook "r": failed to call webhook: Post "https://x": dial tcp: refused`), ExitError, "Countersign's admission webhook does not answer, so nothing was changed: try again, and if it stays so tell an administrator"},
		"undecided":    {status(503, "ServiceUnavailable", `admission webhook "r" denied the request: the object cannot be read now: try again`), ExitError, "the object cannot be read now: try again"},
		"unreachable": {&url.Error{Op: "Get", URL: "https://api.example:6443/apis?x", Err: errors.New("connection refused")}, ExitError,
			"the server at api.example:6443 cannot be reached: connection refused"},
		"drawing": {errors.New("a\x1b[31m\u202eb"), ExitError, `a\x1b[31m\u202eb`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := makeBench(t)
			b.funcs.Create = func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tt.err }
			assert.Equal(t, tt.code, b.run("request", "connector/prod-harbor"))
			assert.Equal(t, "error: "+tt.want+"\n", b.err.String())
		})
	}
}

func TestErrorsOfFields(t *testing.T) {
	err := apierrors.FromObject(&metav1.Status{Code: 422, Reason: "Invalid", Message: `ResourceCheckRequest.x "rcr-1" is invalid: [spec.reason: Too long, <nil>: Invalid value: null: some rules were not checked]`,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			{Field: "spec.reason", Message: "Too long"}, {Field: "<nil>", Message: "Invalid value: null"}, {Field: "spec.use", Message: "Invalid"},
		}}})
	assert.Equal(t, "spec.reason: Too long; spec.use: Invalid", sentence(err))
}

func TestKubeconfigErrors(t *testing.T) {
	b := makeBench(t)
	b.kubeconfig = "/no/such/file"
	assert.Equal(t, ExitError, b.run("list"))
	assert.Contains(t, b.err.String(), "error: the kubeconfig cannot be used")
	assert.Equal(t, ExitError, Run(t.Context(), []string{"list", "--kubeconfig", "/no/such/file"}, genericiooptions.NewTestIOStreamsDiscard()))
}

func TestCompletion(t *testing.T) {
	b := makeBench(t, makeRequest("rcr-1").Obj(), makeCheck("check-a", "rcr-1").Obj(), makeCheck("done", "rcr-2").State("approved").Obj()).as("owner1", "prod-owners")
	require.Equal(t, ExitDone, b.run(cobra.ShellCompNoDescRequestCmd, "wait", ""))
	assert.True(t, strings.HasPrefix(b.out.String(), "rcr-1\n:"), b.out.String())
	require.Equal(t, ExitDone, b.run(cobra.ShellCompNoDescRequestCmd, "approve", "-n", "prod", ""))
	assert.True(t, strings.HasPrefix(b.out.String(), "check-a\n:"), b.out.String())
	require.Equal(t, ExitDone, b.run(cobra.ShellCompNoDescRequestCmd, "list", "-o", ""))
	assert.Contains(t, b.out.String(), "json\nname\nwide\nyaml\n")
}

func TestWarningsOfAdmission(t *testing.T) {
	var out strings.Builder
	w := warnings{&out}
	w.HandleWarningHeaderWithContext(t.Context(), 299, "", "the rule is not ready\x1b[2J")
	w.HandleWarningHeaderWithContext(t.Context(), 214, "", "not for people")
	assert.Equal(t, "warning: the rule is not ready\\x1b[2J\n", out.String())
}

func TestShellWord(t *testing.T) {
	for give, want := range map[string]string{"a-b/c": "a-b/c", "": "''", "/v2/**": "'/v2/**'", "it's": `'it'\''s'`, "a\nb": `'a\nb'`} {
		assert.Equal(t, want, shellWord(give))
	}
}
