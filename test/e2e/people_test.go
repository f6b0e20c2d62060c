package e2e

import (
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func forDuration(d time.Duration) func(*approvalv1alpha1.ResourceCheckRequest) {
	return func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.TimeRange = &approvalv1alpha1.TimeRange{Duration: &metav1.Duration{Duration: d}}
	}
}

func jti(t testing.TB, token string) string {
	t.Helper()
	claims := jwt.RegisteredClaims{}
	_, _, err := jwt.NewParser().ParseUnverified(token, &claims)
	require.NoError(t, err)
	require.NotEmpty(t, claims.ID)
	return claims.ID
}

func TestAPersonAsksForHimselfAndIsLetInForAWhile(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(2))
	developer := plane.token(t, "developer")

	no := s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
	fields := problem(t, no)
	assert.Contains(t, fields["ask"], "kubectl countersign request connector/"+connectorName)
	assert.Equal(t, "developer@example.com", fields["seenAs"])

	request := s.mustAsk(plane.as(t, "developer"), forDuration(10*time.Second))
	assert.Equal(t, "developer@example.com", request.Spec.RequestedBy.Username)
	s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonChecksPending, "prod-owners")

	s.approve(request, "owners", 2)
	s.allowed(developer, "PUT", "/app")
	s.allowed(plane.mint(t, "developer"), "PUT", "/app")
	s.refused(plane.token(t, "intruder"), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)

	s.refused(developer, "PUT", "/app", approvalv1alpha1.ReasonExpired)
	s.reaches(request, approvalv1alpha1.ReasonExpired)
}

func TestAPersonBindsARequestToOneToken(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	bound, other := plane.mint(t, "developer"), plane.mint(t, "developer")

	request := s.mustAsk(plane.as(t, "developer"), func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Context.Token = &approvalv1alpha1.TokenReference{JTI: jti(t, bound)}
	})
	s.approve(request, "owners", 1)
	s.allowed(bound, "PUT", "/app")
	s.refused(other, "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
}

func TestAPersonAsksForTheRunThatHeCreated(t *testing.T) {
	s := newStage(t)
	s.rule("owners", "ApprovalRequest", people(1))
	job, pods := s.job(plane.as(t, "developer"), "release", 1)
	forRun := func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Context.Resource = &approvalv1alpha1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Name: job.Name}
	}

	_, err := s.ask(plane.as(t, "intruder"), forRun)
	refusedBy(t, err, "only who created job "+s.team+"/release", "request-for")

	request := s.mustAsk(plane.as(t, "developer"), forRun)
	assert.Equal(t, job.UID, request.Spec.Context.Resource.UID)
	assert.Equal(t, approvalv1alpha1.SubjectServiceAccount, request.Spec.Context.Subject.Kind)
	assert.Equal(t, "pipeline", request.Spec.Context.Subject.Name)
	s.approve(request, "owners", 1)

	s.allowed(s.proxyToken(&pods[0]), "PUT", "/app")
	s.refused(plane.token(t, "developer"), "PUT", "/app", approvalv1alpha1.ReasonNoRequest)
}
