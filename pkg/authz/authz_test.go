package authz

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

var (
	alice = UserInfo{Username: "alice", UID: "1", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"v"}}}
	write = ResourceAttributes{Verb: "write", Group: "connectors.alaudadevops.io", Resource: "connectors", Subresource: "apis", Namespace: "prod", Name: "harbor"}
)

// server answers reviews by answer and keeps what it was asked.
type server struct {
	mu     sync.Mutex
	asked  []authorizationv1.SubjectAccessReviewSpec
	answer func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)
}

func (s *server) authorizer(clock *clocktesting.FakePassiveClock, options ...Option) *Authorizer {
	client := fake.NewClientset()
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		s.mu.Lock()
		s.asked = append(s.asked, review.Spec)
		s.mu.Unlock()
		status, err := s.answer(review.Spec)
		review.Status = status
		return true, review, err
	})
	return New(clock, client.AuthorizationV1().SubjectAccessReviews(), options...)
}

func always(allowed bool) func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	return func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed, Reason: "because"}, nil
	}
}

func TestS14_ReviewPassesOnAllOfTheCaller(t *testing.T) {
	s := &server{answer: always(true)}
	allowed, reason, err := s.authorizer(clocktesting.NewFakePassiveClock(time.Now())).Allowed(t.Context(), alice, write)
	require.NoError(t, err)
	assert.True(t, allowed)
	assert.Equal(t, "because", reason)
	assert.Equal(t, []authorizationv1.SubjectAccessReviewSpec{{
		ResourceAttributes: &write, User: "alice", UID: "1", Groups: []string{"a", "b"},
		Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
	}}, s.asked)
}

func TestAnswersAreRememberedForTheirTime(t *testing.T) {
	for _, allow := range []bool{true, false} {
		t.Run(fmt.Sprint(allow), func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			s := &server{answer: always(allow)}
			a := s.authorizer(clock)
			ask := func() int {
				allowed, _, err := a.Allowed(t.Context(), alice, write)
				require.NoError(t, err)
				assert.Equal(t, allow, allowed)
				return len(s.asked)
			}
			assert.Equal(t, 1, ask())
			ttl := DefaultDenyTTL
			if allow {
				ttl = DefaultAllowTTL
			}
			clock.SetTime(time.Unix(0, 0).Add(ttl - 1))
			assert.Equal(t, 1, ask())
			clock.SetTime(time.Unix(0, 0).Add(ttl))
			assert.Equal(t, 2, ask())
		})
	}
}

func TestAnswersAreNotSharedBetweenQuestions(t *testing.T) {
	s := &server{answer: always(true)}
	a := s.authorizer(clocktesting.NewFakePassiveClock(time.Now()))
	user := func(edit func(*UserInfo)) UserInfo {
		u := alice
		edit(&u)
		return u
	}
	attrs := func(edit func(*ResourceAttributes)) ResourceAttributes {
		w := write
		edit(&w)
		return w
	}
	users := []UserInfo{
		alice, user(func(u *UserInfo) { u.Username = "alic" }), user(func(u *UserInfo) { u.UID = "" }),
		user(func(u *UserInfo) { u.Groups = []string{"ab"} }), user(func(u *UserInfo) { u.Groups = []string{"a", "b", "k"}; u.Extra = nil }),
		user(func(u *UserInfo) { u.Extra = map[string][]string{"k": nil, "v": nil} }),
	}
	wishes := []ResourceAttributes{
		write, attrs(func(w *ResourceAttributes) { w.Verb = "read" }), attrs(func(w *ResourceAttributes) { w.Name = "" }),
		attrs(func(w *ResourceAttributes) { w.Namespace, w.Name = "prodharbor", "" }), attrs(func(w *ResourceAttributes) { w.Group = "" }),
		attrs(func(w *ResourceAttributes) { w.Subresource = "" }), attrs(func(w *ResourceAttributes) { w.Resource = "x" }),
	}
	for _, u := range users {
		for _, w := range wishes {
			_, _, err := a.Allowed(t.Context(), u, w)
			require.NoError(t, err)
		}
	}
	assert.Len(t, s.asked, len(users)*len(wishes))
}

func TestS9_ErrorIsANoAndIsNotRemembered(t *testing.T) {
	tests := map[string]func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error){
		"the API server is away": func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, errors.New("away")
		},
		"the authorizer failed": func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{EvaluationError: "webhook away"}, nil
		},
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			s := &server{answer: answer}
			a := s.authorizer(clocktesting.NewFakePassiveClock(time.Now()))
			allowed, _, err := a.Allowed(t.Context(), alice, write)
			require.ErrorContains(t, err, `"alice" may write connectors.connectors.alaudadevops.io/apis prod/harbor`)
			assert.False(t, allowed)
			s.answer = always(true)
			allowed, _, err = a.Allowed(t.Context(), alice, write)
			require.NoError(t, err)
			assert.True(t, allowed)
		})
	}
}

func TestDeniedWinsOverAllowed(t *testing.T) {
	s := &server{answer: func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, nil
	}}
	allowed, _, err := s.authorizer(clocktesting.NewFakePassiveClock(time.Now())).Allowed(t.Context(), alice, write)
	require.NoError(t, err)
	assert.False(t, allowed)
}

func TestZeroTTLRemembersNothing(t *testing.T) {
	s := &server{answer: always(true)}
	a := s.authorizer(clocktesting.NewFakePassiveClock(time.Now()), WithTTL(0, 0))
	for range 2 {
		_, _, err := a.Allowed(t.Context(), alice, write)
		require.NoError(t, err)
	}
	assert.Len(t, s.asked, 2)
}

func TestHurryOfOneDoesNotEndTheReviewOfOthers(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{})
	s := &server{answer: func(authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
		close(started)
		<-release
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}, nil
	}}
	a := s.authorizer(clocktesting.NewFakePassiveClock(time.Now()))
	hurried, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, _, err := a.Allowed(hurried, alice, write)
		failed <- err
	}()
	<-started
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	close(release)
	allowed, _, err := a.Allowed(t.Context(), alice, write)
	require.NoError(t, err)
	assert.True(t, allowed)
	assert.Len(t, s.asked, 1)
}

func TestAnswersAreBounded(t *testing.T) {
	a := newAnswers(10)
	for i := range 1000 {
		a.put(keyOf(&UserInfo{Username: fmt.Sprint(i)}, &write), answer{allowed: true})
		assert.LessOrEqual(t, len(a.young)+len(a.old), 10)
	}
}

func TestFromAuthenticationKeepsAll(t *testing.T) {
	assert.Equal(t, alice, FromAuthentication(authenticationv1.UserInfo{
		Username: "alice", UID: "1", Groups: []string{"a", "b"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}},
	}))
}
