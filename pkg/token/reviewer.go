package token

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// TokenReviews is what a [Reviewer] needs of a client; TokenReviews() of client-go's
// AuthenticationV1 has it.
type TokenReviews interface {
	Create(ctx context.Context, review *authenticationv1.TokenReview, opts metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// Reviewer authenticates tokens by asking the API server about each one, and so sees at once what a
// Verifier cannot: that a token's pod, Secret or node is gone. It is safe for concurrent use.
type Reviewer struct {
	client    TokenReviews
	issuers   []string
	audiences []string
	opts      Options
	known     *cache
	flight    singleflight.Group
}

// NewReviewer returns a Reviewer. A token of one of the cluster's issuers must be for one of the
// proxy's audiences; whom a person's token must be for is the API server's own configuration. The
// issuers are needed because a service account counts only if one of them signed its token.
func NewReviewer(client TokenReviews, issuers, audiences []string, opts Options) *Reviewer {
	opts = opts.withDefaults()
	return &Reviewer{client: client, issuers: issuers, audiences: audiences, opts: opts, known: newCache(opts.CacheSize)}
}

// Authenticate implements [Authenticator]. A yes is reused for the review TTL, but never beyond the
// token's expiry.
func (r *Reviewer) Authenticate(ctx context.Context, token string) (*Identity, error) {
	if id := r.known.get(token, r.opts.Clock.Now()); id != nil {
		return id, nil
	}
	t, refused := parseCompact(token)
	if refused == nil {
		refused = t.checkTimes(r.opts.Clock.Now())
	}
	if refused != nil {
		return nil, refused
	}
	// Equal tokens that arrive together are one question, which no impatient caller may end.
	result := r.flight.DoChan(token, func() (any, error) { return r.review(context.WithoutCancel(ctx), token, t) })
	select {
	case answer := <-result:
		id, _ := answer.Val.(*Identity)
		return id, answer.Err
	case <-ctx.Done():
		return nil, errReviewUnavailable(ctx.Err())
	}
}

func (r *Reviewer) review(ctx context.Context, token string, t *compact) (*Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.ReviewTimeout)
	defer cancel()
	asked := r.opts.Clock.Now()
	// The answer may have come between the caller's look and this call.
	if id := r.known.get(token, asked); id != nil {
		return id, nil
	}
	fromCluster := slices.Contains(r.issuers, t.claims.Issuer)
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if fromCluster {
		// Without it the API server asks for its own audience, and people's tokens know no other.
		review.Spec.Audiences = r.audiences
	}
	answer, err := r.client.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return nil, errReviewUnavailable(err)
	}
	if refused := r.judge(&answer.Status, fromCluster); refused != nil {
		return nil, refused
	}
	id, refused := reviewedIdentity(t, &answer.Status.User, fromCluster)
	if refused != nil {
		return nil, refused
	}
	r.remember(token, t, id, asked)
	return id, nil
}

func (r *Reviewer) judge(status *authenticationv1.TokenReviewStatus, fromCluster bool) *Error {
	if !status.Authenticated {
		e := refuse("the API server does not accept the token; get a new one")
		if fromCluster {
			e = refuse("the API server does not accept the token for %s; get a new one for that audience", quotedAll(r.audiences))
		}
		return e.because(errors.New(status.Error))
	}
	// An authenticator that knows no audiences answers with none; then the token is for the API server.
	ours := func(audience string) bool { return slices.Contains(r.audiences, audience) }
	if fromCluster && !slices.ContainsFunc(status.Audiences, ours) {
		return refuse("the API server does not say that the token is for %s; get one for that audience", quotedAll(r.audiences))
	}
	return nil
}

func (r *Reviewer) remember(token string, t *compact, id *Identity, asked time.Time) {
	until := asked.Add(r.opts.ReviewTTL)
	if id.Expiry.Before(until) {
		until = id.Expiry
	}
	r.known.put(token, &cacheEntry{identity: id, validFrom: t.validFrom(), until: until}, r.opts.Clock.Now())
}

// reviewedIdentity takes the user from the API server and the rest from the token, whose signature the
// API server has checked.
func reviewedIdentity(t *compact, who *authenticationv1.UserInfo, fromCluster bool) (*Identity, *Error) {
	id := &Identity{Issuer: t.claims.Issuer, JTI: string(t.claims.ID), Expiry: t.claims.Expiry.Time}
	id.take(&user.DefaultInfo{Name: who.Username, UID: who.UID, Groups: who.Groups, Extra: plainExtra(who.Extra)})
	if !fromCluster {
		return id, refuseReservedUser(who)
	}
	namespace, name, err := serviceaccount.SplitUsername(who.Username)
	if err != nil || who.UID == "" {
		return nil, refuse("the token is from the cluster's issuer, but the API server knows no service account for it; get a new one").because(err)
	}
	id.ServiceAccount = &ServiceAccount{Namespace: namespace, Name: name, UID: who.UID}
	if uid := id.Extra[serviceaccount.PodUIDKey]; len(uid) > 0 {
		id.Pod = &PodRef{Namespace: namespace, Name: strings.Join(id.Extra[serviceaccount.PodNameKey], ""), UID: uid[0]}
	}
	return id, nil
}

// refuseReservedUser lets pass the one group that the API server itself adds to everybody.
func refuseReservedUser(who *authenticationv1.UserInfo) *Error {
	if err := refuseReserved(who.Username); err != nil {
		return err
	}
	foreign := slices.DeleteFunc(slices.Clone(who.Groups), func(g string) bool { return g == user.AllAuthenticated })
	return refuseReserved(foreign...)
}

func plainExtra(extra map[string]authenticationv1.ExtraValue) map[string][]string {
	if extra == nil {
		return nil
	}
	plain := make(map[string][]string, len(extra))
	for key, values := range extra {
		plain[key] = values
	}
	return plain
}
