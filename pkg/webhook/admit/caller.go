package admit

import (
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/authz"
)

// Bounds of what is stored of a caller, as the API's schema wants them.
const (
	maxGroups = 64
	maxText   = 1024
)

const (
	systemPrefix = "system:"
	jtiPrefix    = "JTI="
)

// Caller is who the API server authenticated.
type Caller struct {
	authz.UserInfo
	// ServiceAccount is set if the caller is one.
	ServiceAccount *types.NamespacedName
	// Pod is set if the caller is a service account whose token is bound to a pod.
	Pod *Pod
	// JTI is the token's own identifier; empty if the caller has no token, or one without.
	JTI string
}

// Pod is what a token says of the pod that it is bound to.
type Pod struct {
	types.NamespacedName
	UID types.UID
}

// CallerOf reads what the API server says of a caller.
func CallerOf(info authenticationv1.UserInfo) Caller {
	c := Caller{UserInfo: authz.FromAuthentication(info)}
	if jti, ok := strings.CutPrefix(c.extra(user.CredentialIDKey), jtiPrefix); ok {
		c.JTI = jti
	}
	namespace, name, err := serviceaccount.SplitUsername(c.Username)
	if err != nil {
		return c
	}
	c.ServiceAccount = &types.NamespacedName{Namespace: namespace, Name: name}
	pod := Pod{types.NamespacedName{Namespace: namespace, Name: c.extra(serviceaccount.PodNameKey)}, types.UID(c.extra(serviceaccount.PodUIDKey))}
	if pod.Name != "" && pod.UID != "" {
		c.Pod = &pod
	}
	return c
}

// extra is the one value of a key; two values are as good as none, because no authenticator gives two.
func (c *Caller) extra(key string) string {
	if values := c.Extra[key]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// IsAnonymous tells that nobody was authenticated.
func (c *Caller) IsAnonymous() bool {
	return c.Username == "" || c.Username == user.Anonymous || slices.Contains(c.Groups, user.AllUnauthenticated)
}

// IsPerson tells that the caller is no service account.
func (c *Caller) IsPerson() bool { return c.ServiceAccount == nil }

// Identity is what is stored of the caller: of the groups those that matter, of extra only the credential's id. A caller
// without one is another's word (Identity.Asserted). For an impersonated caller the API server leaves it out, because extra
// holds only what Impersonate-Extra headers say: whoever may impersonate
// `userextras/authentication.kubernetes.io/credential-id` can forge it, and nothing in an admission review tells. No shipped
// role conveys that.
func (c *Caller) Identity(matters func(group string) bool) approvalv1alpha1.Identity {
	id := approvalv1alpha1.Identity{Username: c.Username, UID: c.UID}
	for _, group := range c.Groups {
		if len(id.Groups) < maxGroups && len(group) <= maxText && matters(group) {
			id.Groups = append(id.Groups, group)
		}
	}
	if credential := c.extra(user.CredentialIDKey); credential != "" && len(credential) <= maxText {
		id.Extra = map[string]approvalv1alpha1.ExtraValue{user.CredentialIDKey: {credential}}
	}
	return id
}

// NotSystem tells that a group is one of an organisation, not one that the cluster puts everybody in.
func NotSystem(group string) bool { return !strings.HasPrefix(group, systemPrefix) }

// ServiceAccountUser is a service account as the API server would see it, for asking what it may do.
func ServiceAccountUser(name types.NamespacedName, uid types.UID) authz.UserInfo {
	return authz.UserInfo{
		Username: serviceaccount.MakeUsername(name.Namespace, name.Name), UID: string(uid),
		Groups: append(serviceaccount.MakeGroupNames(name.Namespace), user.AllAuthenticated),
	}
}

// Username is the name under which the API server knows a subject.
func Username(s *approvalv1alpha1.Subject) string {
	if s.Kind == approvalv1alpha1.SubjectServiceAccount {
		return serviceaccount.MakeUsername(s.Namespace, s.Name)
	}
	return s.Name
}

// Is tells whether the caller is the subject. Where both sides know a UID, it must agree: a name may be given to
// somebody else.
func (c *Caller) Is(s *approvalv1alpha1.Subject) bool {
	return s != nil && c.Username == Username(s) && (s.UID == "" || c.UID == "" || s.UID == c.UID)
}

// IsServiceAccount tells whether a user name is that of a service account.
func IsServiceAccount(username string) bool {
	_, _, err := serviceaccount.SplitUsername(username)
	return err == nil
}
