package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const pipelineUser = "system:serviceaccount:team-a:pipeline"

// peopleAt is a proxy whose directory knows those whose names begin with w; those that begin with s do not get an answer.
func peopleAt(t *testing.T, batches *[]int) *fakeProxy {
	t.Helper()
	proxy := startProxy(t, nil)
	proxy.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/-/whois", r.URL.Path)
		assert.Equal(t, http.MethodPost, r.Method)
		assert.Equal(t, "Bearer secret-token", r.Header.Get("Authorization"))
		var asked whoisQuestion
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.NoError(t, json.Unmarshal(body, &asked))
		*batches = append(*batches, len(asked.Names))
		people := []map[string]string{}
		for _, name := range asked.Names {
			person := map[string]string{"name": name, "state": "Unknown", "why": "nobody has this name"}
			switch name[0] {
			case 'w':
				person = map[string]string{"name": name, "state": "Known", "uid": "dir-" + name, "displayName": "Wanda\x1b[2J W.", "email": name + "@example.com"}
			case 's':
				person["state"], person["why"] = "Unavailable", "the directory did not answer within 5s"
			}
			people = append(people, person)
		}
		assert.NoError(t, json.NewEncoder(w).Encode(map[string]any{"people": people}))
	})
	return proxy
}

func pipelineAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "pipeline", UID: "sa-1"}}
}

// withUsers makes the cluster one of OpenShift, with one User.
func withUsers(b *bench) *bench {
	b.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		u, ok := o.(*unstructured.Unstructured)
		if !ok || u.GroupVersionKind() != openShiftUser {
			return c.Get(ctx, key, o, opts...)
		}
		if key != (types.NamespacedName{Name: "olga"}) {
			return apierrors.NewNotFound(schema.GroupResource{Group: "user.openshift.io", Resource: "users"}, key.Name)
		}
		u.Object["fullName"] = "Olga O."
		u.SetName("olga")
		u.SetUID("os-1")
		return nil
	}
	return b
}

func TestWhois(t *testing.T) {
	tests := map[string]struct {
		args []string
		in   string
		code int
		out  string
	}{
		"a person": {args: []string{"wanda"}, out: "" +
			"NAME    DISPLAY NAME      E-MAIL              IS\n" +
			"wanda   Wanda\\x1b[2J W.   wanda@example.com   directory entry\n"},
		"a service account": {args: []string{pipelineUser}, out: "" +
			"NAME                                    DISPLAY NAME   E-MAIL   IS\n" +
			"system:serviceaccount:team-a:pipeline   -              -        serviceaccount team-a/pipeline\n"},
		"a user of OpenShift who has left": {args: []string{"olga"}, out: "" +
			"NAME   DISPLAY NAME   E-MAIL   IS\n" +
			"olga   Olga O.        -        OpenShift user; the directory: nobody has this name\n"},
		"unknown ones decide the code": {args: []string{"wanda", "slow", "xaver", "system:serviceaccount:team-a:gone"}, code: ExitNotFound, out: "" +
			"NAME                                DISPLAY NAME      E-MAIL              IS\n" +
			"wanda                               Wanda\\x1b[2J W.   wanda@example.com   directory entry\n" +
			"slow                                -                 -                   cannot be told; the directory: the directory did not answer within 5s\n" +
			"xaver                               -                 -                   unknown; the directory: nobody has this name\n" +
			"system:serviceaccount:team-a:gone   -                 -                   unknown; there is no such service account now\n"},
		"no answer": {args: []string{"slow"}, code: ExitError, out: "" +
			"NAME   DISPLAY NAME   E-MAIL   IS\n" +
			"slow   -              -        cannot be told; the directory: the directory did not answer within 5s\n"},
		"wide": {args: []string{"wanda", "olga", "-o", "wide"}, out: "" +
			"NAME    DISPLAY NAME      E-MAIL              IS                UID         WHY\n" +
			"wanda   Wanda\\x1b[2J W.   wanda@example.com   directory entry   dir-wanda   -\n" +
			"olga    Olga O.           -                   OpenShift user    os-1        the directory: nobody has this name\n"},
		"from standard input, each once": {args: []string{"-", "wanda", "-o", "name"}, in: "wanda\n\nwilly\r\nxaver\nwanda\n", code: ExitNotFound,
			out: "wanda\nwilly\n"},
		"names that draw":     {args: []string{"w\x1b[31m\u202e", "-o", "name"}, out: "w\\x1b[31m\\u202e\n"},
		"names that are none": {args: []string{"\xff", "", strings.Repeat("w", maxUserName+1), "-o", "name"}, code: ExitNotFound},
		"names that look like paths": {args: []string{"../groups/admins", "~", "system:serviceaccount:..:x", "system:serviceaccount:a"}, code: ExitNotFound, out: "" +
			"NAME                         DISPLAY NAME   E-MAIL   IS\n" +
			"../groups/admins             -              -        unknown; the directory: nobody has this name\n" +
			"~                            -              -        unknown; the directory: nobody has this name\n" +
			"system:serviceaccount:..:x   -              -        unknown; no service account can have this name\n" +
			"system:serviceaccount:a      -              -        cannot be told; the directory: the directory did not answer within 5s\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var batches []int
			b := withUsers(makeBench(t, pipelineAccount()))
			peopleAt(t, &batches).config(b)
			b.in = tt.in
			assert.Equal(t, tt.code, b.run(append([]string{"whois"}, tt.args...)...))
			assert.Equal(t, tt.out, b.out.String())
			assert.Empty(t, b.err.String())
		})
	}
}

func TestWhoisForPrograms(t *testing.T) {
	var batches []int
	b := withUsers(makeBench(t, pipelineAccount()))
	peopleAt(t, &batches).config(b)
	require.Equal(t, ExitNotFound, b.run("whois", "olga", pipelineUser, "xaver", "-o", "json"), b.err.String())
	assert.JSONEq(t, `{"apiVersion": "v1", "kind": "List", "items": [
		{"name": "olga", "state": "Known", "displayName": "Olga O.", "is": [{"kind": "User", "apiVersion": "user.openshift.io/v1", "name": "olga", "uid": "os-1"}],
			"why": ["the directory: nobody has this name"]},
		{"name": "system:serviceaccount:team-a:pipeline", "state": "Known",
			"is": [{"kind": "ServiceAccount", "apiVersion": "v1", "namespace": "team-a", "name": "pipeline", "uid": "sa-1"}]},
		{"name": "xaver", "state": "Unknown", "why": ["the directory: nobody has this name"]}
	]}`, b.out.String())
}

func TestWhoisAsksInBatches(t *testing.T) {
	var batches []int
	b := makeBench(t)
	peopleAt(t, &batches).config(b)
	lines := &strings.Builder{}
	for i := range 250 {
		fmt.Fprintf(lines, "w%d\n", i)
	}
	b.in = lines.String()
	require.Equal(t, ExitDone, b.run("whois", "-", "-o", "name"), b.err.String())
	assert.Equal(t, []int{100, 100, 50}, batches)
	assert.Equal(t, lines.String(), b.out.String())
}

func TestWhoisWithoutTheProxy(t *testing.T) {
	t.Run("objects are told all the same", func(t *testing.T) {
		b := withUsers(makeBench(t, pipelineAccount()))
		assert.Equal(t, ExitError, b.run("whois", pipelineUser, "olga", "wanda", "-o", "wide"))
		assert.Contains(t, b.out.String(), "serviceaccount team-a/pipeline   sa-1   -\n")
		assert.Contains(t, b.out.String(), "OpenShift user                   os-1   the directory cannot be asked: it is not known where the Countersign proxy is")
		assert.Contains(t, b.out.String(), "cannot be told                   -      the directory cannot be asked")
	})
	t.Run("refused", func(t *testing.T) {
		b := makeBench(t)
		startProxy(t, func(map[string][]string) (int, any) {
			return http.StatusForbidden, map[string]string{"reason": "NotPermitted", "detail": "you may not ask who people are"}
		}).config(b)
		assert.Equal(t, ExitError, b.run("whois", "wanda"))
		assert.Contains(t, b.out.String(), "the proxy refuses: you may not ask who people are (NotPermitted)")
	})
	t.Run("an answer about others", func(t *testing.T) {
		b := makeBench(t)
		startProxy(t, func(map[string][]string) (int, any) {
			return http.StatusOK, map[string]any{"people": []map[string]string{{"name": "willy", "state": "Known"}}}
		}).config(b)
		assert.Equal(t, ExitError, b.run("whois", "wanda"))
		assert.Contains(t, b.out.String(), "the proxy answers about somebody else")
		assert.Equal(t, ExitError, b.run("whois", "wanda", "willy"))
		assert.Contains(t, b.out.String(), "answers about others than were asked about")
	})
	t.Run("impersonating", func(t *testing.T) {
		b := makeBench(t)
		assert.Equal(t, ExitError, b.run("whois", "wanda", "--as", "alice"))
		assert.Contains(t, b.out.String(), "--as does not reach the proxy")
	})
	t.Run("nobody", func(t *testing.T) {
		assert.Equal(t, ExitUsage, makeBench(t).run("whois"))
	})
}
