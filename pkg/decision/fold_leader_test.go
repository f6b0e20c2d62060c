package decision

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

type requestEdit func(*approvalv1alpha1.ResourceCheckRequest)

func makeEqual(name string, age time.Duration, edit ...requestEdit) *approvalv1alpha1.ResourceCheckRequest {
	r := &approvalv1alpha1.ResourceCheckRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: "dev", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(foldStart.Add(-age)),
	}}
	for _, e := range edit {
		e(r)
	}
	return r
}

func asked(r *approvalv1alpha1.ResourceCheckRequest) {
	r.Status.RequestRefs = []approvalv1alpha1.CheckReference{{Name: "a"}}
}

func endedNow(r *approvalv1alpha1.ResourceCheckRequest) {
	r.Status.Ended = &approvalv1alpha1.Ended{At: metav1.NewTime(foldStart), Reason: approvalv1alpha1.ReasonExpired}
}

func following(uid string) requestEdit {
	return func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Status.Follows = &approvalv1alpha1.RequestReference{UID: types.UID(uid)}
	}
}

func reads(r *approvalv1alpha1.ResourceCheckRequest) {
	r.Spec.Use = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{approvalv1alpha1.OperationRead}}
}

func writes(r *approvalv1alpha1.ResourceCheckRequest) {
	r.Spec.Use = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{approvalv1alpha1.OperationWrite}}
}

func validUntilNow(r *approvalv1alpha1.ResourceCheckRequest) {
	r.Status.Validity = &approvalv1alpha1.Validity{NotAfter: metav1.NewTime(foldStart)}
}

func TestLeader(t *testing.T) {
	self := func(edit ...requestEdit) *approvalv1alpha1.ResourceCheckRequest {
		return makeEqual("me", time.Minute, edit...)
	}
	cases := map[string]struct {
		self   *approvalv1alpha1.ResourceCheckRequest
		equals []*approvalv1alpha1.ResourceCheckRequest
		want   string
	}{
		"alone":                     {self: self()},
		"an older one":              {self: self(), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("old", time.Hour)}, want: "old"},
		"a younger one":             {self: self(), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("young", time.Second)}},
		"a younger one that asked":  {self: self(), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("young", time.Second, asked)}, want: "young"},
		"an older one, but I asked": {self: self(asked), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("old", time.Hour)}},
		"in the same second":        {self: self(), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("a", time.Minute), makeEqual("z", time.Minute)}, want: "a"},
		"one that ended":            {self: self(), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("old", time.Hour, endedNow)}},
		"one whose time is over":    {self: self(), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("old", time.Hour, asked, validUntilNow)}},
		"another use":               {self: self(), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("old", time.Hour, reads)}},
		"the same use in words":     {self: self(), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("old", time.Hour, writes)}, want: "old"},
		"the one I follow ended":    {self: self(following("old")), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("old", time.Hour, endedNow), makeEqual("new", time.Second)}, want: "old"},
		"the one I follow is gone":  {self: self(following("old")), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("z", time.Minute, following("old"))}},
		"followers do not lead":     {self: self(), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("f", time.Hour, following("old"))}},
		"one being deleted": {self: self(), equals: []*approvalv1alpha1.ResourceCheckRequest{makeEqual("old", time.Hour, func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.DeletionTimestamp = &metav1.Time{Time: foldStart}
		})}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if leader := Leader(c.self, c.equals, foldStart); leader != nil {
				got = leader.Name
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestEndedKey(t *testing.T) {
	a, b, live := makeEqual("a", 0, endedNow), makeEqual("b", 0, endedNow), makeEqual("live", 0)
	assert.Empty(t, EndedKey([]*approvalv1alpha1.ResourceCheckRequest{live}))
	one := EndedKey([]*approvalv1alpha1.ResourceCheckRequest{a, live})
	two := EndedKey([]*approvalv1alpha1.ResourceCheckRequest{a, live, b})
	assert.NotEqual(t, one, two, "also when both ended in the same second")
	assert.Equal(t, two, EndedKey([]*approvalv1alpha1.ResourceCheckRequest{b, a}), "in any order")
}
