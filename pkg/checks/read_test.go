package checks

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	duckv1alpha1 "github.com/AlaudaDevops/countersign/apis/duck/v1alpha1"
)

func TestReadDuckType(t *testing.T) {
	at := metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	cases := map[string]struct {
		check string
		want  duckv1alpha1.CheckStatus
	}{
		"no status": {`{}`, duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckPending}},
		"approved": {
			`{"status":{"state":"approved","message":"fine","decidedBy":[{"username":"o","decision":"Approve","time":"2030-01-02T03:04:05Z"}]}}`,
			duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckApproved, Message: "fine", DecidedBy: []duckv1alpha1.CheckDecision{{Username: "o", Decision: "Approve", Time: at}}},
		},
		"ends by itself": {
			`{"status":{"state":"approved","grantFor":"30m","notAfter":"2030-01-02T03:04:05Z"}}`,
			duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckApproved, GrantFor: &metav1.Duration{Duration: 30 * time.Minute}, NotAfter: &at},
		},
		"an unknown state": {
			`{"status":{"state":"Approved"}}`,
			duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckError, Message: `the check says "Approved", which is none of pending, approved, rejected, error and cancelled`},
		},
		"a state that is no text": {
			`{"status":{"state":true}}`,
			duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckError, Message: "the check's status.state is no text; it must be pending, approved, rejected, error or cancelled"},
		},
		"an end that nobody can read": {
			`{"status":{"state":"approved","notAfter":"tomorrow"}}`,
			duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckError, Message: "the check's status.notAfter is no time such as 2030-01-02T15:04:05Z"},
		},
		"a length that nobody can read": {
			`{"status":{"state":"approved","grantFor":"1d"}}`,
			duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckError, Message: "the check's status.grantFor is no duration such as 30m"},
		},
		"fields of another meaning": {
			`{"status":{"state":"pending","message":{"en":"hello"},"waitingFor":"godot","decidedBy":7}}`,
			duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckPending},
		},
		"waits for something odd": {
			`{"status":{"waitingFor":[{"kind":"Robot","name":"r2","missing":-4}]}}`,
			duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckPending, WaitingFor: []duckv1alpha1.CheckWaiting{{Kind: duckv1alpha1.WaitingForOther, Name: "r2"}}},
		},
		"an approval of an earlier spec": {
			`{"metadata":{"generation":3},"status":{"state":"approved","observedGeneration":2}}`,
			duckv1alpha1.CheckStatus{
				State: duckv1alpha1.CheckPending, ObservedGeneration: 2,
				Message: "the approval is for an earlier spec of the check; its controller has not looked at the present one yet",
			},
		},
		"a rejection of an earlier spec": {
			`{"metadata":{"generation":3},"status":{"state":"rejected","observedGeneration":2}}`,
			duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckRejected, ObservedGeneration: 2},
		},
		"a status that is no object": {`{"status":"approved"}`, duckv1alpha1.CheckStatus{State: duckv1alpha1.CheckPending}},
	}
	kind := compile(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, kind.Read(parse(t, c.check))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadIsBounded(t *testing.T) {
	long := strings.Repeat("ü", 10_000)
	entry := `{"username":"` + long + `","decision":"` + long + `","comment":"` + long + `"}`
	check := `{"status":{"message":"` + long + `","decidedBy":[` + strings.Repeat(entry+",", 200) + entry + `]}}`
	got := compile(t).Read(parse(t, check))
	assert.LessOrEqual(t, len(got.Message), maxMessage)
	require.Len(t, got.DecidedBy, maxEntries)
	assert.LessOrEqual(t, len(got.DecidedBy[0].Comment), maxComment)
	assert.LessOrEqual(t, len(got.DecidedBy[0].Decision), maxDecision)
}

func TestReadByExpression(t *testing.T) {
	withState := func(text string) func(*approvalv1alpha1.CheckKind) {
		return func(ck *approvalv1alpha1.CheckKind) { ck.Spec.State = &approvalv1alpha1.StateReader{CEL: text} }
	}
	cases := map[string]struct {
		cel, check  string
		want        duckv1alpha1.CheckState
		wantMessage string
	}{
		"maps a phase":                    {`has(self.status) && self.status.phase == 'Done' ? 'approved' : 'pending'`, `{"status":{"phase":"Done"}}`, duckv1alpha1.CheckApproved, ""},
		"before a status":                 {`has(self.status) && self.status.phase == 'Done' ? 'approved' : 'pending'`, `{}`, duckv1alpha1.CheckPending, ""},
		"an unknown word":                 {`'yes'`, `{}`, duckv1alpha1.CheckError, `the check says "yes"`},
		"fails":                           {`self.status.phase`, `{}`, duckv1alpha1.CheckError, "spec.state.cel failed"},
		"yields no text":                  {`self.spec.n`, `{"spec":{"n":1}}`, duckv1alpha1.CheckError, "yielded no text"},
		"costs too much":                  {`self.spec.l.all(a, self.spec.l.all(b, self.spec.l.all(c, a + b + c >= 0))) ? 'approved' : 'error'`, bigList(), duckv1alpha1.CheckError, "cost"},
		"the duck's state does not count": {`'pending'`, `{"status":{"state":"approved"}}`, duckv1alpha1.CheckPending, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := compile(t, withState(c.cel)).Read(parse(t, c.check))
			assert.Equal(t, c.want, got.State)
			assert.Contains(t, got.Message, c.wantMessage)
		})
	}
}

func bigList() string {
	return `{"spec":{"l":[` + strings.Repeat("1,", 199) + `1]}}`
}
