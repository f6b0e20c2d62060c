package directory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/AlaudaDevops/countersign/pkg/directory"
	"github.com/AlaudaDevops/countersign/pkg/directory/open"
)

const (
	controllerUser = "system:serviceaccount:countersign-system:countersign-controller"

	// patience bounds waiting for what other processes do; nothing depends on its length.
	patience = 2 * time.Minute
	tick     = 20 * time.Millisecond
)

var users = schema.GroupVersionResource{Group: "user.openshift.io", Version: "v1", Resource: "users"}

// acting reaches the API as a service account.
func acting(user string) *rest.Config {
	config := cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	return config
}

// controller is the API as Countersign's controller may use it.
func controller(t *testing.T) dynamic.Interface {
	t.Helper()
	return client(t, acting(controllerUser))
}

func client(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return c
}

// people opens the shipped sample, without a memory: each look-up asks.
func people(t *testing.T, api dynamic.Interface) *directory.Cached {
	t.Helper()
	sample, err := os.ReadFile("../../../config/samples/directory/openshift.yaml")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "directory.yaml")
	forgetful := string(sample) + "cache: {positive: 0s, negative: 0s, breaker: {failures: 1000000}}\n"
	require.NoError(t, os.WriteFile(path, []byte(forgetful), 0o600))
	c, err := open.Open(path, open.Deps{Dynamic: api})
	require.NoError(t, err)
	return c
}

// TestUsersOfOpenShift follows an installation from before the API is there to a person who leaves.
func TestUsersOfOpenShift(t *testing.T) {
	mine, admin := people(t, controller(t)), client(t, cluster.Admin())

	unavailable(t, people(t, admin), "alice", "the API server has no user.openshift.io/v1")
	require.NoError(t, cluster.ApplyFiles(t.Context(), cluster.Admin(), "testdata/users.yaml"))
	unavailable(t, mine, "alice", "add the component directory-openshift")
	require.NoError(t, cluster.ApplyFiles(t.Context(), cluster.Admin(), "../../../config/components/directory-openshift/rbac.yaml"))
	become(t, mine, "alice", "the directory knows no such person")

	alice := create(t, admin, "alice", "ldap:alice")
	known(t, mine, alice)
	t.Run("other names", func(t *testing.T) { nobodyHasOtherNames(t, mine) })
	t.Run("one identity of two", func(t *testing.T) { identitiesAreNotNames(t, mine, admin) })
	t.Run("outage", func(t *testing.T) { outageIsNoAnswer(t, alice) })
	t.Run("whois", func(t *testing.T) { whoisTellsOfUsers(t, alice) })

	create(t, admin, "carol")
	become(t, mine, "carol", "no identity provider stands behind the User, so nobody can log in as it")

	require.NoError(t, admin.Resource(users).Delete(t.Context(), "alice", metav1.DeleteOptions{}))
	become(t, mine, "alice", "the User is being deleted")
	alice, err := admin.Resource(users).Get(t.Context(), "alice", metav1.GetOptions{})
	require.NoError(t, err)
	alice.SetFinalizers(nil)
	_, err = admin.Resource(users).Update(t.Context(), alice, metav1.UpdateOptions{})
	require.NoError(t, err)
	become(t, mine, "alice", "the directory knows no such person")

	_, err = controller(t).Resource(users).List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "the controller may not list people: %v", err)
}

func known(t *testing.T, c *directory.Cached, user *unstructured.Unstructured) {
	t.Helper()
	answer, err := c.Lookup(t.Context(), user.GetName())
	require.NoError(t, err)
	assert.Equal(t, directory.Person{UID: string(user.GetUID()), DisplayName: "User " + user.GetName()}, answer.Person)
}

// nobodyHasOtherNames asks for names that a careless path would join into alice, or into another resource.
func nobodyHasOtherNames(t *testing.T, mine *directory.Cached) {
	for _, other := range []string{
		"Alice", "bob", "a/b", "alice/", "/alice", "alice/..", "../users/alice", "..", ".", "...", "~", "kube:admin", "", "alice/status",
		"%2f", "%2e%2e", "%61lice", "alice%2f", "alice%2f..", "..%2fusers%2falice", "alice%00", "bob%2f..%2falice",
		"alice?x", "?", "alice?resourceVersion=0", "alice#x", "alice&x=y", "alice;x", "alice\n", "alice ", " alice", "alice\x00", "al\\ice", "\u0430lice",
	} {
		_, err := mine.Lookup(t.Context(), other)
		require.ErrorIs(t, err, directory.ErrUnknown, "%q", other)
	}
}

// identitiesAreNotNames holds that a User's name is all that is asked for: the API server gives it to one User only, and
// which of two an identity logs in as is OpenShift's to say.
func identitiesAreNotNames(t *testing.T, mine *directory.Cached, admin dynamic.Interface) {
	for _, name := range []string{"twin-1", "twin-2", "twin.of-3.example.org"} {
		user := create(t, admin, name, "ldap:twin", "ldap:twin")
		known(t, mine, user)
		_, err := admin.Resource(users).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "user.openshift.io/v1", "kind": "User", "metadata": map[string]any{"name": name},
		}}, metav1.CreateOptions{})
		assert.True(t, apierrors.IsAlreadyExists(err), "a name is one User's: %v", err)
	}
	_, err := mine.Lookup(t.Context(), "twin")
	require.ErrorIs(t, err, directory.ErrUnknown)
	_, err = mine.Lookup(t.Context(), "ldap:twin")
	require.ErrorIs(t, err, directory.ErrUnknown)
}

// outageIsNoAnswer loses the API server and finds it again.
func outageIsNoAnswer(t *testing.T, alice *unstructured.Unstructured) {
	config := acting(controllerUser)
	line := newRelay(t, config)
	config.Host = "https://" + line.address
	mine := people(t, client(t, config))
	known(t, mine, alice)
	line.cut()
	unavailable(t, mine, "alice", "the API server did not say whether the User exists")
	unavailable(t, mine, "bob", "the API server did not say whether the User exists")
	line.mend(t)
	known(t, mine, alice)
	_, err := mine.Lookup(t.Context(), "bob")
	require.ErrorIs(t, err, directory.ErrUnknown)
}

// create makes a user who stays for a while when he is deleted.
func create(t *testing.T, api dynamic.Interface, name string, identities ...any) *unstructured.Unstructured {
	t.Helper()
	user, err := api.Resource(users).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "user.openshift.io/v1", "kind": "User",
		"metadata": map[string]any{"name": name, "finalizers": []any{"example.com/slow"}},
		"fullName": "User " + name, "identities": identities,
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return user
}

func unavailable(t *testing.T, c *directory.Cached, name, why string) {
	t.Helper()
	_, err := c.Lookup(t.Context(), name)
	var u *directory.UnavailableError
	require.ErrorAs(t, err, &u)
	require.NotErrorIs(t, err, directory.ErrUnknown)
	assert.Contains(t, u.Why, why)
}

// become waits until the name is unknown for this reason: the API server takes roles up from a watch.
func become(t *testing.T, c *directory.Cached, name, why string) {
	t.Helper()
	var last error
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		_, last = c.Lookup(ctx, name)
		if last == nil {
			return false, fmt.Errorf("%s is known", name)
		}
		return errors.Is(last, directory.ErrUnknown), nil
	})
	require.NoError(t, err, "last: %v", last)
	assert.EqualError(t, last, why)
}
