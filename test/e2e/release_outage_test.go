package e2e

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// These tests take the directory away from everybody, so they run by themselves, before the others.

func TestS16_DirectoryOutageIsNoYesAndNoNo(t *testing.T) {
	for name, outage := range map[string]func(*testing.T) (end func()){
		"stopped": func(t *testing.T) func() {
			require.NoError(t, plane.people.server.Stop())
			return func() { require.NoError(t, plane.people.server.Restart(t.Context())) }
		},
		"slow, ten seconds and more": func(t *testing.T) func() {
			require.NoError(t, plane.people.server.Pause())
			return func() { require.NoError(t, plane.people.server.Resume()) }
		},
		"wrong answers": babble,
	} {
		t.Run(name, func(t *testing.T) {
			outlasts(t, outage, strings.HasPrefix(name, "slow"))
		})
	}
}

// outlasts makes Releases in an outage: two of people of their own, and one for who stands for the plan since.
func outlasts(t *testing.T, outage func(*testing.T) (end func()), slow bool) {
	r := newReleasesAlone(t)
	bob, carol, stranger := r.somebody("bob"), r.somebody("carol"), "stranger@"+r.team+".example.com"
	plan := r.plan(r.somebody("alice"), standing)
	r.planShows(metav1.ConditionTrue, releasev1alpha1.ReasonVerified)
	end := sync.OnceFunc(outage(t))
	defer end()
	began := time.Now()
	// Nothing is remembered of carol, who has never been asked for.
	require.NoError(t, r.patch(carol, plan, `{"spec":{"data":{"by":"carol"}}}`))
	own, machine, refused := r.release(bob), r.release(integration, automated), r.release(stranger)
	all := []*releasev1alpha1.Release{own, machine, refused}
	for _, release := range all {
		r.shows(release, releasev1alpha1.ConditionValidated, metav1.ConditionUnknown, approvalv1alpha1.ReasonDirectoryUnavailable)
	}
	r.planShows(metav1.ConditionUnknown, releasev1alpha1.ReasonDirectoryUnavailable)
	r.respondsMeanwhile()
	if slow {
		r.eventually("it has been slow for ten seconds", func() error {
			if time.Since(began) < 10*time.Second {
				return assert.AnError
			}
			return nil
		})
	}
	for _, release := range all {
		now := r.now(release)
		assert.False(t, now.Status.Attribution != nil && now.Status.Attribution.Verified, "nothing unverified passes")
		r.ranNothing(release)
	}
	end()
	assert.False(t, r.succeeds(own).Status.Attribution.StandingAttribution)
	attribution := r.succeeds(machine).Status.Attribution
	assert.True(t, attribution.StandingAttribution)
	assert.Equal(t, carol, attribution.Author)
	r.fails(refused, stranger)
	r.planShows(metav1.ConditionTrue, releasev1alpha1.ReasonVerified)
}

// newReleasesAlone is a stage for a test that runs by itself.
func newReleasesAlone(t *testing.T) *releases {
	t.Helper()
	return newReleasesOn(newStageAlone(t))
}

// respondsMeanwhile asks for the connector and is answered as always.
func (r *releases) respondsMeanwhile() {
	r.Helper()
	r.rule("owners", "ApprovalRequest", people(1))
	request := r.mustAsk(plane.as(r.T, "developer"))
	r.approve(request, "owners", 1)
	r.reaches(request, approvalv1alpha1.ReasonAllChecksApproved)
}

// babble puts a server in the directory's place that speaks no protocol.
func babble(t *testing.T) func() {
	require.NoError(t, plane.people.server.Stop())
	address := strings.TrimPrefix(plane.people.server.LDAPSURL, "ldaps://")
	var listener net.Listener
	eventually(t, "the directory's port is free", func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 this is something else\r\n"))
			_ = conn.Close()
		}
	}()
	return func() {
		require.NoError(t, listener.Close())
		require.NoError(t, plane.people.server.Restart(t.Context()))
	}
}
