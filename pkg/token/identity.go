package token

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Authenticator turns a bearer token into the identity it stands for.
//
// The identity is shared between callers and must not be changed. The error is always an [*Error],
// and never contains the token.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (*Identity, error)
}

// Identity is who a verified token stands for, in the terms of the API server's user info.
// It is immutable: the same pointer is handed to every request that carries the token.
type Identity struct {
	// Username is the exact user name; never empty.
	Username string
	// UID is the service account's UID, or what the issuer of a person maps; may be empty for people.
	UID string
	// Groups always ends with, or contains, "system:authenticated".
	Groups []string
	// Extra has the API server's keys, such as authentication.kubernetes.io/credential-id.
	Extra map[string][]string
	// Issuer is the token's verified "iss" claim.
	Issuer string
	// JTI is the token's own identifier ("jti", RFC 7519 section 4.1.7); empty if the issuer sets none.
	JTI string
	// ServiceAccount is set if and only if the cluster's issuer signed the token.
	ServiceAccount *ServiceAccount
	// Pod is the pod that the token is bound to; nil for people and for unbound tokens.
	Pod *PodRef
	// Expiry is the first instant at which the token is no longer accepted.
	Expiry time.Time
}

// ServiceAccount names the service account of a token. All fields are set.
type ServiceAccount struct {
	Namespace, Name, UID string
}

// PodRef names the pod that a token is bound to. All fields are set.
type PodRef struct {
	Namespace, Name, UID string
}

// take copies what the API server knows about a user, and makes him authenticated as it does.
func (i *Identity) take(info user.Info) {
	i.Username, i.UID, i.Extra = info.GetName(), info.GetUID(), info.GetExtra()
	i.Groups = info.GetGroups()
	if !slices.Contains(i.Groups, user.AllAuthenticated) {
		i.Groups = append(i.Groups[:len(i.Groups):len(i.Groups)], user.AllAuthenticated)
	}
}

// refuseReserved keeps the cluster's own names for the cluster's issuer.
func refuseReserved(names ...string) *Error {
	for _, name := range names {
		if strings.HasPrefix(name, reservedPrefix) {
			return refuse("the token claims the name %s, but names that begin with %q are accepted from the cluster's own issuer only; use a prefix in the issuer's claimMappings",
				quoted(name), reservedPrefix)
		}
	}
	return nil
}
