package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// attempt is what came of one of many creates at one instant.
type attempt struct {
	request *approvalv1alpha1.ResourceCheckRequest
	err     error
}

// atOnce asks so often at one instant; a change tells the asks apart.
func (s *stage) atOnce(as client.Client, times int, change func(i int, r *approvalv1alpha1.ResourceCheckRequest)) []attempt {
	s.Helper()
	attempts := make([]attempt, times)
	start := make(chan struct{})
	var done sync.WaitGroup
	for i := range attempts {
		done.Go(func() {
			<-start
			attempts[i].request, attempts[i].err = s.ask(as, func(r *approvalv1alpha1.ResourceCheckRequest) { change(i, r) })
		})
	}
	close(start)
	done.Wait()
	return attempts
}

// requests are those that were made in the team's namespace.
func (s *stage) requests() []approvalv1alpha1.ResourceCheckRequest {
	s.Helper()
	var list approvalv1alpha1.ResourceCheckRequestList
	require.NoError(s, s.admin.List(s.ctx, &list, client.InNamespace(s.team)))
	return list.Items
}

func TestFiftyEqualAsksAtOneInstantAreOneRequest(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	_, pods := s.job(plane.as(t, "developer"), "burst", 1)

	var created *approvalv1alpha1.ResourceCheckRequest
	var conflicts []error
	for _, a := range s.atOnce(s.inPod(&pods[0]), 50, func(int, *approvalv1alpha1.ResourceCheckRequest) {}) {
		if a.err != nil {
			conflicts = append(conflicts, a.err)
			continue
		}
		require.Nil(t, created, "only one is created")
		created = a.request
	}
	require.NotNil(t, created)
	assert.Len(t, conflicts, 49)
	for _, err := range conflicts {
		require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
		assert.Contains(t, err.Error(), created.Name)
	}
	s.reaches(created, approvalv1alpha1.ReasonChecksPending)
	assert.Len(t, s.requests(), 1)
	assert.Len(t, s.checks(), 1)
}

func TestFiftyEqualAsksWithFreeNamesAskOnce(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	_, pods := s.job(plane.as(t, "developer"), "burst", 1)

	attempts := s.atOnce(s.inPod(&pods[0]), 50, func(i int, r *approvalv1alpha1.ResourceCheckRequest) {
		r.GenerateName, r.Name = "", fmt.Sprintf("free-%d", i)
	})
	for _, a := range attempts {
		require.NoError(t, a.err, "a name that the client chose is kept")
	}
	var leader *approvalv1alpha1.ResourceCheckRequest
	s.eventually("49 follow one", func() error {
		leader = nil
		following := map[string]int{}
		for _, r := range s.requests() {
			if r.Status.Follows != nil {
				following[r.Status.Follows.Name]++
			} else if len(r.Status.RequestRefs) > 0 {
				leader = r.DeepCopy()
			}
		}
		if leader == nil || following[leader.Name] != 49 {
			return fmt.Errorf("those who are followed: %v", following)
		}
		return nil
	})
	assert.Len(t, s.checks(), 1, "the owners are asked once")

	s.approve(leader, "owners", 1)
	for _, a := range attempts {
		s.reaches(a.request, approvalv1alpha1.ReasonAllChecksApproved)
	}
	assert.Len(t, s.checks(), 1)
	s.allowed(s.proxyToken(&pods[0]), "PUT", "/app")
}

func TestAfterTheEndAPersonAsksAgainAtOnceAndAPodDoesNotAfterARejection(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	developer := plane.as(t, "developer")

	rejected := s.mustAsk(developer)
	require.NoError(t, s.answer("owner1", rejected, "owners", approvalv1alpha1.DecisionReject))
	s.reaches(rejected, approvalv1alpha1.ReasonChecksRejected)
	s.refused(plane.token(t, "developer"), "PUT", "/app", approvalv1alpha1.ReasonChecksRejected)

	revoked := s.mustAsk(developer)
	assert.NotEqual(t, rejected.Name, revoked.Name)
	require.NoError(t, s.revoke(developer, revoked, "done"))
	s.reaches(revoked, approvalv1alpha1.ReasonRevoked)

	expired := s.mustAsk(developer, forDuration(time.Second))
	s.approve(expired, "owners", 1)
	s.reaches(expired, approvalv1alpha1.ReasonExpired)
	again := s.mustAsk(developer)
	s.reaches(again, approvalv1alpha1.ReasonChecksPending)

	_, pods := s.job(developer, "once", 1)
	inPod := s.inPod(&pods[0])
	byPod := s.mustAsk(inPod)
	require.NoError(t, s.answer("owner1", byPod, "owners", approvalv1alpha1.DecisionReject))
	s.reaches(byPod, approvalv1alpha1.ReasonChecksRejected)
	_, err := s.ask(inPod)
	refusedBy(t, err, "rejected")
}
