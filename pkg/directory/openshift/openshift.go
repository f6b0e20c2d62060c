// Package openshift asks OpenShift's own user API, user.openshift.io/v1: a User object of exactly this name.
package openshift

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/AlaudaDevops/countersign/pkg/directory"
)

// Config is the section `openshift` of the directory's configuration; all of it may be left out.
type Config struct {
	// AllowWithoutIdentities also knows Users to whom no identity provider is linked. By default they are unknown:
	// nobody can log in as such a User, and an administrator unlinks somebody who left in this way.
	AllowWithoutIdentities bool `json:"allowWithoutIdentities,omitempty"`
}

// users is the resource of OpenShift.
var users = schema.GroupVersionResource{Group: "user.openshift.io", Version: "v1", Resource: "users"}

// mend is how soon an administrator may have mended what asking again does not.
const mend = 30 * time.Second

// Client is the directory.
type Client struct {
	users  dynamic.ResourceInterface
	config Config
}

// New returns the directory behind the API server of the client.
func New(c Config, client dynamic.Interface) (*Client, error) {
	if client == nil {
		return nil, errors.New("there is no client of the API server")
	}
	return &Client{users: client.Resource(users), config: c}, nil
}

// Lookup implements directory.Directory.
func (c *Client) Lookup(ctx context.Context, username string) (*directory.Person, error) {
	if !userName(username) {
		return nil, &directory.UnknownError{Why: "no User of OpenShift can have this name"}
	}
	user, err := c.users.Get(ctx, username, metav1.GetOptions{})
	if err != nil {
		return nil, explain(err)
	}
	return c.person(user, username)
}

// userName is OpenShift's own rule for names of Users. It also keeps the request inside the resource: "~" is whoever
// asks, and names such as "../groups/admins" would be joined into another path.
func userName(name string) bool {
	return len(content.IsPathSegmentName(name)) == 0 && name != "~" && !strings.Contains(name, ":")
}

func (c *Client) person(user *unstructured.Unstructured, username string) (*directory.Person, error) {
	identities, err := identitiesOf(user)
	name, _, nameErr := unstructured.NestedString(user.Object, "fullName")
	switch {
	case user.GetName() != username || err != nil || nameErr != nil:
		return nil, errors.New("the API server answered with something else than the User that was asked for")
	case user.GetDeletionTimestamp() != nil:
		return nil, &directory.UnknownError{Why: "the User is being deleted"}
	case len(identities) == 0 && !c.config.AllowWithoutIdentities:
		return nil, &directory.UnknownError{Why: "no identity provider stands behind the User, so nobody can log in as it"}
	}
	return &directory.Person{UID: string(user.GetUID()), DisplayName: name}, nil
}

// identitiesOf treats null as none, which is how OpenShift writes it.
func identitiesOf(user *unstructured.Unstructured) ([]string, error) {
	if user.Object["identities"] == nil {
		return nil, nil
	}
	identities, _, err := unstructured.NestedStringSlice(user.Object, "identities")
	return identities, err
}

// explain tells a no from an outage. A missing API also answers "not found", in words that are not the API's.
func explain(err error) error {
	switch {
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return directory.ErrUnknown
	case apierrors.IsNotFound(err):
		return &directory.UnavailableError{Why: "the API server has no user.openshift.io/v1: choose another type of directory, or wait until OpenShift's API is back", RetryAfter: mend}
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return &directory.UnavailableError{Why: "the controller may not get users.user.openshift.io: add the component directory-openshift to the installation", RetryAfter: mend}
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return &directory.UnavailableError{Why: "the API server is too busy to say whether the User exists", RetryAfter: time.Duration(seconds) * time.Second}
	}
	return fmt.Errorf("the API server did not say whether the User exists: %w", withoutAddress(err))
}

// withoutAddress keeps from people who wait where the API server is.
func withoutAddress(err error) error {
	var dialled *net.OpError
	if errors.As(err, &dialled) {
		return dialled.Err
	}
	var sent *url.Error
	if errors.As(err, &sent) {
		return sent.Err
	}
	return err
}
