package request

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/origin"
)

const controllerName = "system:serviceaccount:countersign-system:countersign-controller"

// controllerUser is our controller with the token of its pod.
func controllerUser() authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: controllerName, UID: "controller-uid", Extra: map[string]authenticationv1.ExtraValue{
		"authentication.kubernetes.io/pod-name": {"controller-0"}, "authentication.kubernetes.io/pod-uid": {"controller-0-uid"},
	}}
}

// newReleases has Release rel by alice for the plan to-prod, and a second plan.
func newReleases(t *testing.T) (*harness, *origin.Node) {
	t.Helper()
	h := newHarness(t, plan("to-prod"), plan("other"), account("bot"))
	return h, h.release("rel", "alice")
}

func (h *harness) release(name, creator string) *origin.Node {
	n := h.run("Release", name, creator, nil)
	n.Release = &origin.Release{Plan: "to-prod", Author: creator}
	return n
}

func plan(name string) *releasev1alpha1.ReleasePlan {
	p := &releasev1alpha1.ReleasePlan{}
	p.Namespace, p.Name, p.UID = "apps", name, "plan-uid"
	return p
}

// askRelease is what our controller sends; edits are further YAML, merged at the top.
func askRelease(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := parse(t, `
apiVersion: approval.alaudadevops.io/v1alpha1
kind: ResourceCheckRequest
metadata: {namespace: apps, generateName: rcr-}
spec:
  objectRef: {apiVersion: appstudio.redhat.com/v1alpha1, kind: ReleasePlan, name: to-prod}
  context: {resource: {apiVersion: appstudio.redhat.com/v1alpha1, kind: Release, name: rel}}
  use: {operations: [Write]}
`)
	merge(u.Object, parse(t, text).Object)
	return u
}

func TestTheControllerAsksForAReleaseOfAPerson(t *testing.T) {
	h, _ := newReleases(t)
	h.refused["alice request releaseplans apps/to-prod"] = true
	req, err := h.create(controllerUser(), askRelease(t, ``))
	require.NoError(t, err)
	assert.Equal(t, approvalv1alpha1.RequestContext{
		Subject:  &approvalv1alpha1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "alice"},
		Resource: &approvalv1alpha1.ObjectReference{APIVersion: "appstudio.redhat.com/v1alpha1", Kind: "Release", Namespace: "apps", Name: "rel", UID: "rel"},
	}, req.Spec.Context)
	assert.Equal(t, "plan-uid", string(req.Spec.ObjectRef.UID))
	assert.Equal(t, controllerName, req.Spec.RequestedBy.Username)
	assert.Equal(t, []string{controllerName + " decide checks /", controllerName + " decide checks /"}, h.asked, "asked for no other right, and without a namespace")
}

func TestTheControllerAsksForAReleaseOfAServiceAccount(t *testing.T) {
	h, _ := newReleases(t)
	h.release("auto", "system:serviceaccount:apps:bot")
	req, err := h.create(controllerUser(), askRelease(t, `spec: {context: {resource: {name: auto}}}`))
	require.NoError(t, err)
	assert.Equal(t, &approvalv1alpha1.Subject{Kind: "ServiceAccount", Namespace: "apps", Name: "bot", UID: "bot-uid"}, req.Spec.Context.Subject)

	h.release("lost", "system:serviceaccount:apps:gone")
	_, err = h.create(controllerUser(), askRelease(t, `spec: {context: {resource: {name: lost}}}`))
	assert.ErrorContains(t, err, "there is no service account apps/gone")
}

func TestAskingForAReleaseIsRefused(t *testing.T) {
	tests := map[string]struct {
		user   authenticationv1.UserInfo
		change func(*harness, *origin.Node)
		ask    string
		want   string
	}{
		"to who made it": {
			user:   person("alice"),
			change: func(h *harness, _ *origin.Node) { h.refused["alice decide checks /"] = true },
			want:   "only Countersign's controller asks for Releases",
		},
		"to a pod with every right in the namespace": {
			user:   serviceAccountUser("bot", "jti", &origin.Node{Name: "pod", UID: "pod"}),
			change: func(h *harness, _ *origin.Node) { h.refused["system:serviceaccount:apps:bot decide checks /"] = true },
			want:   "only Countersign's controller asks for Releases",
		},
		"for another plan": {
			ask:  `spec: {objectRef: {name: other}}`,
			want: `Release apps/rel is released by the ReleasePlan "to-prod" of its namespace: ask for that one`,
		},
		"for a plan elsewhere": {
			ask:  `spec: {objectRef: {namespace: prod}}`,
			want: "ask for that one",
		},
		"for another kind of that name": {
			ask:  `spec: {objectRef: {apiVersion: v1, kind: ConfigMap}}`,
			want: "ask for that one",
		},
		"for a connector": {
			ask:  `spec: {objectRef: {apiVersion: connectors.alaudadevops.io/v1alpha1, kind: Connector, namespace: prod, name: harbor}}`,
			want: "ask for that one",
		},
		"for a Release in another namespace": {
			ask:  `spec: {context: {resource: {namespace: prod}}}`,
			want: "it must be the request's own namespace",
		},
		"for a Release that is not there": {
			ask:  `spec: {context: {resource: {name: other}}}`,
			want: "there is no Release apps/other",
		},
		"for a Release of another UID": {
			ask:  `spec: {context: {resource: {uid: x}}}`,
			want: "it is \"rel\" and not \"x\"",
		},
		"without a plan": {
			change: func(_ *harness, n *origin.Node) { n.Release.Plan = "gone" },
			ask:    `spec: {objectRef: {name: gone}}`,
			want:   "there is no ReleasePlan apps/gone: create it, then the Release anew",
		},
		"with another plan's UID": {
			ask:  `spec: {objectRef: {uid: x}}`,
			want: "not \"x\"",
		},
		"with another subject": {
			ask:  `spec: {context: {subject: {kind: User, name: bob}}}`,
			want: `it is "alice" and not "bob"`,
		},
		"with a pod": {
			ask:  `spec: {context: {pod: {name: p, namespace: apps, uid: p}}}`,
			want: "the server knows of none here",
		},
		"with a token": {
			ask:  `spec: {context: {token: {jti: t}}}`,
			want: "the server knows of none here",
		},
		"when nobody can be shown to have made it": {
			change: func(_ *harness, n *origin.Node) { n.Created = epoch },
			want:   "nobody can be shown to have made Release apps/rel",
		},
		"when it is released": {
			change: func(_ *harness, n *origin.Node) { n.Finished, n.FinishedWhy = true, "Succeeded" },
			want:   "it has finished (Succeeded)",
		},
		"when it is being deleted": {
			change: func(_ *harness, n *origin.Node) { n.Deleting = true },
			want:   "it is being deleted",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h, node := newReleases(t)
			if test.change != nil {
				test.change(h, node)
			}
			if test.user.Username == "" {
				test.user = controllerUser()
			}
			_, err := h.create(test.user, askRelease(t, test.ask))
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestReleasesAreNotLimitedAndDoNotCount(t *testing.T) {
	h, _ := newReleases(t)
	for i := range 200 {
		name := fmt.Sprintf("rel-%d", i)
		h.release(name, "alice")
		req, err := h.create(controllerUser(), askRelease(t, `spec: {context: {resource: {name: `+name+`}}}`))
		require.NoError(t, err)
		h.store(req)
	}
	_, err := h.create(person("bob"), ask(t, `spec: {objectRef: {apiVersion: appstudio.redhat.com/v1alpha1, kind: ReleasePlan, namespace: apps, name: to-prod}}`))
	require.NoError(t, err, "people may still ask for the plan")
}

func TestARejectedReleaseIsNotAskedForAgain(t *testing.T) {
	h, _ := newReleases(t)
	req, err := h.create(controllerUser(), askRelease(t, ``))
	require.NoError(t, err)
	h.store(req, ended(approvalv1alpha1.ReasonChecksRejected, 0))
	_, err = h.create(controllerUser(), askRelease(t, ``))
	assert.ErrorContains(t, err, "was rejected, which is final")
}
