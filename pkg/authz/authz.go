package authz

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"
)

// UserInfo is everything that is known of an authenticated caller.
type UserInfo struct {
	Username string
	UID      string
	Groups   []string
	Extra    map[string][]string
}

// FromAuthentication takes a caller as admission and TokenReview show him.
func FromAuthentication(u authenticationv1.UserInfo) UserInfo {
	user := UserInfo{Username: u.Username, UID: u.UID, Groups: u.Groups}
	if len(u.Extra) > 0 {
		user.Extra = make(map[string][]string, len(u.Extra))
		for key, values := range u.Extra {
			user.Extra[key] = values
		}
	}
	return user
}

// ResourceAttributes is what he wants to do.
type ResourceAttributes = authorizationv1.ResourceAttributes

// Defaults of the options.
const (
	DefaultAllowTTL = 10 * time.Second
	DefaultDenyTTL  = 5 * time.Second
	DefaultTimeout  = 5 * time.Second
	DefaultSize     = 16_384
)

// Authorizer answers by SubjectAccessReview.
type Authorizer struct {
	reviews  authorizationclient.SubjectAccessReviewInterface
	clock    clock.PassiveClock
	allowTTL time.Duration
	denyTTL  time.Duration
	timeout  time.Duration
	answers  *answers
	flight   singleflight.Group
}

// Option changes an Authorizer.
type Option func(*Authorizer)

// WithTTL sets how long answers are remembered: zero or less means not at all. The longer, the later a right that was
// taken away stops counting.
func WithTTL(allow, deny time.Duration) Option {
	return func(a *Authorizer) { a.allowTTL, a.denyTTL = allow, deny }
}

// WithTimeout bounds one review.
func WithTimeout(d time.Duration) Option { return func(a *Authorizer) { a.timeout = d } }

// WithSize bounds how many answers are remembered.
func WithSize(n int) Option { return func(a *Authorizer) { a.answers = newAnswers(n) } }

// New returns an Authorizer.
func New(clock clock.PassiveClock, reviews authorizationclient.SubjectAccessReviewInterface, options ...Option) *Authorizer {
	a := &Authorizer{
		reviews: reviews, clock: clock, allowTTL: DefaultAllowTTL, denyTTL: DefaultDenyTTL, timeout: DefaultTimeout,
		answers: newAnswers(DefaultSize),
	}
	for _, option := range options {
		option(a)
	}
	return a
}

// Allowed tells whether the user may do it. reason is the authorizer's own text, which may be empty. On an error the
// answer is no, and it is not remembered.
func (a *Authorizer) Allowed(ctx context.Context, user UserInfo, attrs ResourceAttributes) (allowed bool, reason string, err error) {
	key := keyOf(&user, &attrs)
	if found, ok := a.answers.get(key, a.clock.Now()); ok {
		return found.allowed, found.reason, nil
	}
	// One caller's hurry must not end the review that others wait for.
	result := a.flight.DoChan(string(key[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
		defer cancel()
		return a.review(ctx, key, user, attrs)
	})
	select {
	case <-ctx.Done():
		return false, "", fmt.Errorf("it is not known in time whether %q may %s: %w", user.Username, describe(attrs), ctx.Err())
	case r := <-result:
		if r.Err != nil {
			return false, "", r.Err
		}
		found := r.Val.(answer)
		return found.allowed, found.reason, nil
	}
}

func (a *Authorizer) review(ctx context.Context, key key, user UserInfo, attrs ResourceAttributes) (answer, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = values
	}
	review, err := a.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &attrs, User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
	}}, metav1.CreateOptions{})
	if err != nil {
		return answer{}, fmt.Errorf("the API server did not say whether %q may %s: %w", user.Username, describe(attrs), err)
	}
	found := answer{allowed: review.Status.Allowed && !review.Status.Denied, reason: review.Status.Reason}
	// An authorizer that failed may answer otherwise in a moment.
	if !found.allowed && review.Status.EvaluationError != "" {
		return answer{}, fmt.Errorf("the API server could not tell whether %q may %s: %s", user.Username, describe(attrs), review.Status.EvaluationError)
	}
	ttl := a.denyTTL
	if found.allowed {
		ttl = a.allowTTL
	}
	if ttl > 0 {
		found.until = a.clock.Now().Add(ttl)
		a.answers.put(key, found)
	}
	return found, nil
}

// describe is the wish in words, such as "write connectors.connectors.alaudadevops.io/apis prod/harbor".
func describe(attrs ResourceAttributes) string {
	resource := attrs.Resource
	if attrs.Group != "" {
		resource += "." + attrs.Group
	}
	if attrs.Subresource != "" {
		resource += "/" + attrs.Subresource
	}
	object := attrs.Name
	if attrs.Namespace != "" {
		object = attrs.Namespace + "/" + object
	}
	return attrs.Verb + " " + resource + " " + object
}
