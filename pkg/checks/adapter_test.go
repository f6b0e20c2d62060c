package checks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

func asBuiltIn(kind string) func(*approvalv1alpha1.CheckKind) {
	return func(ck *approvalv1alpha1.CheckKind) {
		ck.Spec.APIVersion, ck.Spec.Kind = approvalv1alpha1.GroupVersion.String(), kind
	}
}

func TestInitial(t *testing.T) {
	check := parse(t, `{"spec":{"policies":[{"name":"owners","approvers":[{"type":"Group","name":"prod-owners"}],"numberOfApprovalsRequired":2}]}}`)
	waiting, message := compile(t, asBuiltIn(kindApprovalRequest)).Initial(check)
	assert.Equal(t, []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForGroup, Name: "prod-owners", Missing: 2}}, waiting)
	assert.NotEmpty(t, message)
	waiting, message = compile(t).Initial(check)
	assert.Empty(t, waiting, "nothing is known of a foreign kind")
	assert.Empty(t, message)
	waiting, _ = compile(t, asBuiltIn(kindApprovalRequest)).Initial(parse(t, `{"spec":{"policies":"all"}}`))
	assert.Empty(t, waiting)
}

func TestDeadline(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 500, time.UTC)
	cases := map[string]struct {
		kind, spec string
		want       time.Duration
	}{
		"the default": {kindApprovalRequest, ``, 168 * time.Hour},
		"the rule's":  {kindApprovalRequest, `{"timeout":"90m"}`, 90 * time.Minute},
		"a script's":  {kindScriptCheck, `{"timeout":"1h"}`, time.Hour},
		"an author's": {kindAttributionCheck, `{"timeout":"2h"}`, 2 * time.Hour},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			template := &approvalv1alpha1.CheckTemplate{Spec: runtime.RawExtension{Raw: []byte(c.spec)}}
			got := compile(t, asBuiltIn(c.kind)).Deadline(template, now)
			assert.Equal(t, now.Truncate(time.Second).Add(c.want), got.Time)
		})
	}
	assert.Nil(t, compile(t).Deadline(&approvalv1alpha1.CheckTemplate{}, now))
}
