package token

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// fakeReviews answers as an API server whose authenticators know the one token.
type fakeReviews struct {
	status authenticationv1.TokenReviewStatus
	err    error
	asked  atomic.Int32
	last   atomic.Pointer[authenticationv1.TokenReviewSpec]
	held   chan struct{}
}

func (f *fakeReviews) Create(ctx context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	f.asked.Add(1)
	f.last.Store(&review.Spec)
	if f.held != nil {
		<-f.held
	}
	if _, ok := ctx.Deadline(); !ok {
		return nil, errors.New("a review without a time limit")
	}
	return &authenticationv1.TokenReview{Status: f.status}, f.err
}

func accountStatus() authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{ourAudience},
		User: authenticationv1.UserInfo{
			Username: "system:serviceaccount:prod:builder", UID: "sa-uid",
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:prod", "system:authenticated"},
			Extra: map[string]authenticationv1.ExtraValue{
				"authentication.kubernetes.io/credential-id": {"JTI=jti-1"},
				"authentication.kubernetes.io/pod-name":      {"builder-1"},
				"authentication.kubernetes.io/pod-uid":       {"pod-uid"},
				"authentication.kubernetes.io/node-name":     {"node-1"},
				"authentication.kubernetes.io/node-uid":      {"node-uid"},
			},
		},
	}
}

const peopleIssuerURL = "https://sso.example.com"

func personStatus() authenticationv1.TokenReviewStatus {
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{clusterIssuer},
		User: authenticationv1.UserInfo{
			Username: "ada@example.com", UID: "42", Groups: []string{"owners", "dev", "system:authenticated"},
			Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"JTI=jti-2"}},
		},
	}
}

func newTestReviewer(f *fakeReviews, clock *clocktesting.FakeClock) *Reviewer {
	return NewReviewer(f, []string{clusterIssuer}, []string{ourAudience}, Options{Clock: clock})
}

func TestReviewedIdentity(t *testing.T) {
	cases := map[string]struct {
		status        authenticationv1.TokenReviewStatus
		token         *mint
		wantAudiences []string
		want          Identity
	}{
		"service account": {
			status: accountStatus(), token: makeServiceAccountToken(), wantAudiences: []string{ourAudience},
			want: Identity{
				Username: "system:serviceaccount:prod:builder", UID: "sa-uid", Issuer: clusterIssuer, JTI: "jti-1",
				Groups: accountStatus().User.Groups, Extra: plainExtra(accountStatus().User.Extra),
				ServiceAccount: &ServiceAccount{Namespace: "prod", Name: "builder", UID: "sa-uid"},
				Pod:            &PodRef{Namespace: "prod", Name: "builder-1", UID: "pod-uid"},
			},
		},
		"person": {
			status: personStatus(), token: makePersonToken(peopleIssuerURL),
			want: Identity{
				Username: "ada@example.com", UID: "42", Issuer: peopleIssuerURL, JTI: "jti-2",
				Groups: personStatus().User.Groups, Extra: plainExtra(personStatus().User.Extra),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := &fakeReviews{status: tc.status}
			clock := clocktesting.NewFakeClock(epoch)
			r := newTestReviewer(f, clock)
			token := tc.token.sign()
			tc.want.Expiry = epoch.Add(time.Hour)
			if diff := cmp.Diff(tc.want, *accepted(t, r, token), cmp.Comparer(time.Time.Equal)); diff != "" {
				t.Errorf("identity (-want +got):\n%s", diff)
			}
			assert.Equal(t, tc.wantAudiences, f.last.Load().Audiences)
			accepted(t, r, token)
			assert.EqualValues(t, 1, f.asked.Load(), "a yes is kept")
			clock.Step(10 * time.Second)
			f.status.Authenticated = false
			_ = refused(t, r, token)
			assert.EqualValues(t, 2, f.asked.Load(), "but not for long")
			_ = refused(t, r, token)
			assert.EqualValues(t, 3, f.asked.Load(), "and a no never")
		})
	}
}

func TestReviewRefused(t *testing.T) {
	person := func(change func(*authenticationv1.UserInfo)) authenticationv1.TokenReviewStatus {
		s := personStatus()
		change(&s.User)
		return s
	}
	account := func(change func(*authenticationv1.TokenReviewStatus)) authenticationv1.TokenReviewStatus {
		s := accountStatus()
		change(&s)
		return s
	}
	cases := map[string]struct {
		status authenticationv1.TokenReviewStatus
		err    error
		token  string
		reason string
		want   string
		asked  int32
	}{
		"not authenticated": {status: authenticationv1.TokenReviewStatus{Error: "pod is gone"}, token: makeServiceAccountToken().sign(), want: `does not accept the token for "countersign"`, asked: 1},
		"person unknown":    {status: authenticationv1.TokenReviewStatus{}, token: makePersonToken(peopleIssuerURL).sign(), want: "does not accept the token", asked: 1},
		"audience ignored by the API server": {
			status: account(func(s *authenticationv1.TokenReviewStatus) { s.Audiences = nil }),
			token:  makeServiceAccountToken().sign(), want: `does not say that the token is for "countersign"`, asked: 1,
		},
		"audience of another": {
			status: account(func(s *authenticationv1.TokenReviewStatus) { s.Audiences = []string{"vault"} }),
			token:  makeServiceAccountToken().sign(), want: `does not say that the token is for "countersign"`, asked: 1,
		},
		"cluster token of a person": {
			status: account(func(s *authenticationv1.TokenReviewStatus) { s.User.Username = "ada" }),
			token:  makeServiceAccountToken().sign(), want: "knows no service account", asked: 1,
		},
		"service account without UID": {
			status: account(func(s *authenticationv1.TokenReviewStatus) { s.User.UID = "" }),
			token:  makeServiceAccountToken().sign(), want: "knows no service account", asked: 1,
		},
		"service account from another issuer": {status: accountStatus(), token: makePersonToken(peopleIssuerURL).sign(), want: `claims the name "system:serviceaccount:prod:builder"`, asked: 1},
		"person in masters": {
			status: person(func(u *authenticationv1.UserInfo) { u.Groups = []string{"system:authenticated", "system:masters"} }),
			token:  makePersonToken(peopleIssuerURL).sign(), want: `claims the name "system:masters"`, asked: 1,
		},
		"person named as the group": {
			status: person(func(u *authenticationv1.UserInfo) { u.Username = "system:authenticated" }),
			token:  makePersonToken(peopleIssuerURL).sign(), want: `claims the name "system:authenticated"`, asked: 1,
		},
		"opaque token":     {status: personStatus(), token: "opaque", want: "garbled"},
		"expired":          {status: accountStatus(), token: makeServiceAccountToken().claim("exp", epoch.Unix()).sign(), want: "expired at"},
		"API server fails": {err: errors.New("connection refused"), token: makeServiceAccountToken().sign(), reason: ReasonNotReady, want: "cannot be asked", asked: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := &fakeReviews{status: tc.status, err: tc.err}
			e := refused(t, newTestReviewer(f, clocktesting.NewFakeClock(epoch)), tc.token)
			if tc.reason == "" {
				tc.reason = ReasonUnauthenticated
			}
			assert.Equal(t, tc.reason, e.Reason)
			assert.Contains(t, e.Detail, tc.want)
			assert.Equal(t, tc.asked, f.asked.Load())
		})
	}
}

func TestReviewsOfOneTokenAreMerged(t *testing.T) {
	f := &fakeReviews{status: accountStatus(), held: make(chan struct{})}
	r := newTestReviewer(f, clocktesting.NewFakeClock(epoch))
	token := makeServiceAccountToken().sign()
	impatient, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := r.Authenticate(impatient, token)
	require.ErrorIs(t, err, context.Canceled)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			_, err := r.Authenticate(context.Background(), token)
			assert.NoError(t, err)
		})
	}
	close(f.held)
	all.Wait()
	assert.EqualValues(t, 1, f.asked.Load())
}

func TestCompareReading(t *testing.T) {
	other := func(change func(*authenticationv1.UserInfo)) *fakeReviews {
		s := accountStatus()
		change(&s.User)
		return &fakeReviews{status: s}
	}
	cases := map[string]struct {
		reviews *fakeReviews
		token   *mint
		want    []string
	}{
		"alike":           {reviews: &fakeReviews{status: accountStatus()}},
		"order of groups": {reviews: other(func(u *authenticationv1.UserInfo) { u.Groups[0], u.Groups[2] = u.Groups[2], u.Groups[0] })},
		"user name": {
			reviews: other(func(u *authenticationv1.UserInfo) { u.Username = "system:serviceaccount:prod:boss" }),
			want:    []string{`user name: offline "system:serviceaccount:prod:builder", API server "system:serviceaccount:prod:boss"`},
		},
		"uid": {
			reviews: other(func(u *authenticationv1.UserInfo) { u.UID = "other" }),
			want:    []string{`uid: offline "sa-uid", API server "other"`},
		},
		"groups": {
			reviews: other(func(u *authenticationv1.UserInfo) { u.Groups = u.Groups[2:] }),
			want:    []string{`groups: offline ["system:authenticated" "system:serviceaccounts" "system:serviceaccounts:prod"], API server ["system:authenticated"]`},
		},
		"extra": {
			reviews: other(func(u *authenticationv1.UserInfo) {
				delete(u.Extra, "authentication.kubernetes.io/node-name")
				u.Extra["authentication.kubernetes.io/pod-uid"] = []string{"other"}
			}),
			want: []string{
				`extra authentication.kubernetes.io/node-name: offline ["node-1"], API server []`,
				`extra authentication.kubernetes.io/pod-uid: offline ["pod-uid"], API server ["other"]`,
			},
		},
		"accepted here only": {
			reviews: &fakeReviews{},
			want:    []string{`the offline check accepts the token, the API server does not: the API server does not accept the token for "countersign"; get a new one for that audience`},
		},
		"accepted there only": {
			reviews: &fakeReviews{status: accountStatus()}, token: makeServiceAccountToken().head("kid", "two"),
			want: []string{`the API server accepts the token, the offline check does not: the token is signed with key "two", which issuer "https://kubernetes.default.svc.cluster.local" does not publish; get a new token`},
		},
		"refused by both": {reviews: &fakeReviews{}, token: makeServiceAccountToken().claim("exp", epoch.Unix())},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if tc.token == nil {
				tc.token = makeServiceAccountToken()
			}
			got, err := newTestReviewer(tc.reviews, b.clock).CompareReading(context.Background(), b, tc.token.sign())
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
	t.Run("unanswered", func(t *testing.T) {
		b := newBench(t)
		r := newTestReviewer(&fakeReviews{err: errors.New("connection refused")}, b.clock)
		_, err := r.CompareReading(context.Background(), b, makeServiceAccountToken().sign())
		assert.ErrorContains(t, err, "comparing with the API server")
	})
}
