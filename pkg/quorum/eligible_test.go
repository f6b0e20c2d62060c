package quorum

import (
	"testing"

	"github.com/stretchr/testify/assert"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func TestEligible(t *testing.T) {
	builder := "system:serviceaccount:dev:builder"
	robot := "system:serviceaccount:ops:robot"
	tests := map[string]struct {
		spec   *specBuilder
		askers []string
		who    approvalv1alpha1.Identity
		want   error
	}{
		"named user":         {spec: makeSpec().Policy("p", 1, "alice"), who: approvalv1alpha1.Identity{Username: "alice"}},
		"member of group":    {spec: makeSpec().Policy("p", 1, "@owners"), who: approvalv1alpha1.Identity{Username: "alice", Groups: []string{"owners"}}},
		"named in later one": {spec: makeSpec().Policy("p", 1, "bob").Policy("q", 1, "alice"), who: approvalv1alpha1.Identity{Username: "alice"}},
		"not named":          {spec: makeSpec().Policy("p", 1, "bob", "@owners"), who: approvalv1alpha1.Identity{Username: "alice", Groups: []string{"qa"}}, want: errNotNamed},
		"group of a user's name": {spec: makeSpec().Policy("p", 1, "owners"),
			who: approvalv1alpha1.Identity{Username: "alice", Groups: []string{"owners"}}, want: errNotNamed},
		"case counts": {spec: makeSpec().Policy("p", 1, "alice"), who: approvalv1alpha1.Identity{Username: "Alice"}, want: errNotNamed},
		"nobody":      {spec: makeSpec().Policy("p", 1, "alice").SelfApproval(), want: errNobody},
		"system group": {spec: makeSpec().Policy("p", 1, "@system:authenticated"),
			who: approvalv1alpha1.Identity{Username: "alice", Groups: []string{"system:authenticated"}}, want: errNotNamed},
		"service account by group": {spec: makeSpec().Policy("p", 1, "@owners"),
			who: approvalv1alpha1.Identity{Username: robot, Groups: []string{"owners"}}, want: errServiceAccount},
		"service account by name": {spec: makeSpec().Policy("p", 1, robot), who: approvalv1alpha1.Identity{Username: robot}},
		"requester":               {spec: makeSpec().Policy("p", 1, "dev1"), who: approvalv1alpha1.Identity{Username: "dev1"}, want: errPartOfQuestion},
		"subject":                 {spec: makeSpec().Policy("p", 1, builder), who: approvalv1alpha1.Identity{Username: builder}, want: errPartOfQuestion},
		"user subject": {spec: makeSpec().Policy("p", 1, "dev2").With(func(s *approvalv1alpha1.ApprovalRequestSpec) {
			s.Request.Subject = approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectUser, Name: "dev2"}
		}), who: approvalv1alpha1.Identity{Username: "dev2"}, want: errPartOfQuestion},
		"asker": {spec: makeSpec().Policy("p", 1, "alice"), askers: []string{"alice"}, who: approvalv1alpha1.Identity{Username: "alice"}, want: errPartOfQuestion},
		"excluded": {spec: makeSpec().Policy("p", 1, "alice").With(func(s *approvalv1alpha1.ApprovalRequestSpec) {
			s.Request.Excluded = []string{"alice"}
		}), who: approvalv1alpha1.Identity{Username: "alice"}, want: errPartOfQuestion},
		"creator of a hop": {spec: makeSpec().Policy("p", 1, "alice").With(func(s *approvalv1alpha1.ApprovalRequestSpec) {
			s.Request.Context = []approvalv1alpha1.ContextHop{{CreatedBy: "alice"}}
		}), who: approvalv1alpha1.Identity{Username: "alice"}, want: errPartOfQuestion},
		"requester where allowed": {spec: makeSpec().Policy("p", 1, "dev1").SelfApproval(), who: approvalv1alpha1.Identity{Username: "dev1"}},
		"unknown creator": {spec: makeSpec().Policy("p", 1, "alice").With(func(s *approvalv1alpha1.ApprovalRequestSpec) {
			s.Request.UnknownCreator = true
		}), who: approvalv1alpha1.Identity{Username: "alice"}, want: errUnknownCreator},
		"unknown creator of a hop": {spec: makeSpec().Policy("p", 1, "alice").With(func(s *approvalv1alpha1.ApprovalRequestSpec) {
			s.Request.Context = []approvalv1alpha1.ContextHop{{CreatedBy: approvalv1alpha1.UnknownUser}}
		}), who: approvalv1alpha1.Identity{Username: "alice"}, want: errUnknownCreator},
		"unknown creator where allowed": {spec: makeSpec().Policy("p", 1, "alice").SelfApproval().With(func(s *approvalv1alpha1.ApprovalRequestSpec) {
			s.Request.UnknownCreator = true
		}), who: approvalv1alpha1.Identity{Username: "alice"}},
		"own credential where asked for": {spec: makeSpec().Policy("p", 1, "alice").ForbidAsserted(),
			who: approvalv1alpha1.Identity{Username: "alice", Extra: ownToken()}},
		"asserted where refused":   {spec: makeSpec().Policy("p", 1, "alice").ForbidAsserted(), who: approvalv1alpha1.Identity{Username: "alice"}, want: errAsserted},
		"asserted and not named":   {spec: makeSpec().Policy("p", 1, "bob").ForbidAsserted(), who: approvalv1alpha1.Identity{Username: "alice"}, want: errNotNamed},
		"asserted service account": {spec: makeSpec().Policy("p", 1, robot).ForbidAsserted(), who: approvalv1alpha1.Identity{Username: robot}, want: errAsserted},
		"credential id that is no value": {spec: makeSpec().Policy("p", 1, "alice").ForbidAsserted(),
			who: approvalv1alpha1.Identity{Username: "alice", Extra: map[string]approvalv1alpha1.ExtraValue{approvalv1alpha1.ExtraCredentialID: {}}}, want: errAsserted},
		"no question": {spec: makeSpec().Policy("p", 1, "alice").With(func(s *approvalv1alpha1.ApprovalRequestSpec) { s.Request = nil }),
			who: approvalv1alpha1.Identity{Username: "alice"}, want: errUnknownCreator},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, Eligible(tt.spec.Obj(), tt.askers, tt.who))
		})
	}
}
