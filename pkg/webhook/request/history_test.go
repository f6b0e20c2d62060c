package request

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/fingerprint"
	"github.com/AlaudaDevops/countersign/pkg/webhook/admit"
)

type edit = func(*approvalv1alpha1.ResourceCheckRequest)

func ended(reason string, hold time.Duration) edit {
	return func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Status.Ended = &approvalv1alpha1.Ended{At: metav1.NewTime(now.Add(-time.Minute)), Reason: reason, Message: "bob said no"}
		if hold != 0 {
			until := metav1.NewTime(now.Add(hold))
			r.Status.Ended.HoldUntil = &until
		}
	}
}

func TestEqualAsksGetTheNameOfTheLiveOne(t *testing.T) {
	h := newHarness(t, connector())
	first, err := h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
	second, err := h.create(person("alice"), ask(t, `spec: {reason: the same for another reason}`))
	require.NoError(t, err)
	assert.Equal(t, first.Name, second.Name)

	h.store(first)
	third, err := h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
	assert.Equal(t, first.Name, third.Name)

	for name, differs := range map[string]string{
		"use":        `spec: {use: {operations: [Read]}}`,
		"time range": `spec: {timeRange: {duration: 1h}}`,
		"token":      `spec: {context: {token: {jti: x}}}`,
	} {
		other, err := h.create(person("alice"), ask(t, differs))
		require.NoError(t, err)
		assert.NotEqual(t, first.Name, other.Name, name)
	}
	other, err := h.create(person("bob"), ask(t, ""))
	require.NoError(t, err)
	assert.NotEqual(t, first.Name, other.Name)
}

func TestEndedRequestsNeverBlockPeople(t *testing.T) {
	h := newHarness(t, connector())
	names := map[string]bool{}
	for i := range 5 {
		req, err := h.create(person("alice"), ask(t, ""))
		require.NoError(t, err)
		assert.False(t, names[req.Name], "the name of an ended request is taken")
		names[req.Name] = true
		h.store(req, ended(approvalv1alpha1.ReasonChecksRejected, 0), func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.UID = types.UID(fmt.Sprint("uid-", 9-i)) // ends within one second, with UIDs in no helpful order
		})
	}
}

func TestNameOfALiveRequestIsFoundAfterOlderOnesWereRemoved(t *testing.T) {
	h := newHarness(t, connector())
	old, err := h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
	old = h.store(old, ended(approvalv1alpha1.ReasonExpired, 0))
	live, err := h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
	h.store(live)
	require.NoError(t, h.client.Delete(t.Context(), old))
	again, err := h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
	assert.Equal(t, live.Name, again.Name)
}

func TestExpiredByTheClockIsEnded(t *testing.T) {
	h := newHarness(t, connector())
	req, err := h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
	h.store(req, func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Status.Validity = &approvalv1alpha1.Validity{NotBefore: metav1.NewTime(epoch), NotAfter: metav1.NewTime(now)}
	})
	again, err := h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
	assert.NotEqual(t, req.Name, again.Name)
}

func TestClientChosenNamesAreKept(t *testing.T) {
	h := newHarness(t, connector())
	req, err := h.create(person("alice"), ask(t, `metadata: {generateName: null, name: mine}`))
	require.NoError(t, err)
	assert.Equal(t, "mine", req.Name)
	req, err = h.create(person("alice"), ask(t, `metadata: {generateName: mine-, name: mine-abcde}`))
	require.NoError(t, err)
	assert.Equal(t, "mine-abcde", req.Name)
}

func TestRejectionIsFinalForPods(t *testing.T) {
	h := newHarness(t, connector(), account("deployer"), account("builder"))
	_, _, pod := h.pipeline()
	byPod := serviceAccountUser("deployer", "j", pod)
	req, err := h.create(byPod, ask(t, ""))
	require.NoError(t, err)
	h.store(req, ended(approvalv1alpha1.ReasonChecksRejected, 0))

	_, err = h.create(byPod, ask(t, ""))
	require.ErrorContains(t, err, "final for the pods and tasks of this run")
	_, err = h.create(serviceAccountUser("custom-task", "k", nil), ask(t, creatorAsks))
	require.ErrorContains(t, err, "final for the pods and tasks of this run")

	anew, err := h.create(person("alice"), ask(t, `spec: {context: {subject: {kind: ServiceAccount, name: deployer}, resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run}}}`))
	require.NoError(t, err)
	h.store(anew)
	joined, err := h.create(byPod, ask(t, ""))
	require.NoError(t, err, "the creator asked anew, so the pod waits for that")
	assert.Equal(t, anew.Name, joined.Name)
}

func TestARejectionStaysFinalForPodsThatEndOtherRequests(t *testing.T) {
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(d)) }
	tests := map[string]struct {
		created time.Duration
		by      string
		want    string
	}{
		"asked before the rejection and revoked after it": {-time.Hour, "alice", "final for the pods and tasks of this run"},
		"a pod joined what the creator asks":              {-time.Second, "system:serviceaccount:apps:deployer", "final for the pods and tasks of this run"},
		"asked by the creator since":                      {-time.Second, "alice", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, connector())
			_, _, pod := h.pipeline()
			byPod := serviceAccountUser("deployer", "j", pod)
			other, err := h.create(byPod, ask(t, `spec: {use: {operations: [Read]}}`))
			require.NoError(t, err)
			rejected, err := h.create(byPod, ask(t, ""))
			require.NoError(t, err)
			h.store(rejected, ended(approvalv1alpha1.ReasonChecksRejected, 0), func(r *approvalv1alpha1.ResourceCheckRequest) { r.CreationTimestamp = at(-time.Hour) })
			h.store(other, ended(approvalv1alpha1.ReasonRevoked, 0), func(r *approvalv1alpha1.ResourceCheckRequest) {
				r.CreationTimestamp, r.Status.Ended.At, r.Spec.RequestedBy.Username = at(tc.created), at(0), tc.by
			})
			_, err = h.create(byPod, ask(t, ""))
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestOtherEndsAreNotFinalForPods(t *testing.T) {
	h := newHarness(t, connector())
	_, _, pod := h.pipeline()
	byPod := serviceAccountUser("deployer", "j", pod)
	req, err := h.create(byPod, ask(t, ""))
	require.NoError(t, err)
	h.store(req, ended(approvalv1alpha1.ReasonExpired, 0))
	_, err = h.create(byPod, ask(t, ""))
	require.NoError(t, err)
}

func TestRevocationByAnOwnerHolds(t *testing.T) {
	h := newHarness(t, connector())
	req, err := h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
	h.store(req, ended(approvalv1alpha1.ReasonRevoked, time.Hour), func(r *approvalv1alpha1.ResourceCheckRequest) { r.Namespace = "elsewhere" })
	_, err = h.create(person("alice"), ask(t, ""))
	require.ErrorContains(t, err, "holds the same question back until 2025-01-02T01:00:00Z")
	h.clock.SetTime(now.Add(time.Hour))
	_, err = h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
}

func TestS8_ForgedFingerprintLabelsDoNotCount(t *testing.T) {
	h := newHarness(t, connector())
	req, err := h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
	h.store(req, ended(approvalv1alpha1.ReasonRevoked, time.Hour), func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Context.Subject.Name = "mallory" // carries alice's fingerprint, asks for another
	})
	_, err = h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
}

// creatorAsks is the creator of the run asking for what a pod of the run asked for already.
const creatorAsks = `spec: {context: {subject: {kind: ServiceAccount, name: deployer}, resource: {apiVersion: tekton.dev/v1, kind: PipelineRun, name: run}}}`

func TestS7_WhoAsksTheSameIsRecorded(t *testing.T) {
	h := newHarness(t, connector(), account("deployer"), account("builder"))
	_, _, pod := h.pipeline()
	req, err := h.create(serviceAccountUser("deployer", "j", pod), ask(t, ""))
	require.NoError(t, err)
	stored := h.store(req)
	askers := func() []string {
		var now approvalv1alpha1.ResourceCheckRequest
		require.NoError(t, h.client.Get(t.Context(), client.ObjectKeyFromObject(stored), &now))
		return now.Status.Askers
	}

	_, err = h.create(serviceAccountUser("deployer", "j2", pod), ask(t, ""))
	require.NoError(t, err)
	assert.Empty(t, askers(), "who asked first is no other asker")

	_, err = h.admit(person("alice"), ask(t, creatorAsks), func(*unstructuredObject) {}, true)
	require.NoError(t, err)
	assert.Empty(t, askers(), "a dry run leaves no trace")

	for range 2 {
		_, err = h.create(person("alice"), ask(t, creatorAsks))
		require.NoError(t, err)
		assert.Equal(t, []string{"alice"}, askers())
	}
	_, err = h.create(person("carol"), ask(t, creatorAsks+"\nmetadata: {generateName: null, name: mine}"))
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"alice", "carol"}, askers(), "another name follows, and counts as well")
}

func TestFieldOwnersFitWhateverTheName(t *testing.T) {
	for _, user := range []string{"a", "\x00\n", "日本語"} {
		assert.Regexp(t, `^countersign-asker-[0-9a-f]{64}$`, fieldOwner(user))
	}
	assert.NotEqual(t, fieldOwner("a"), fieldOwner("b"))
}

func TestLimits(t *testing.T) {
	tests := map[string]struct {
		limits Limits
		want   string
	}{
		"person":    {Limits{PerPerson: 3}, "you have 3 open requests"},
		"namespace": {Limits{PerNamespace: 3}, "the namespace has 3 open requests"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, connector())
			h.webhook.Limits = tc.limits
			h.webhook.Limits.setDefaults()
			use := func(i int) string { return fmt.Sprintf(`spec: {use: {http: {paths: ["/%d"]}}}`, i) }
			for i := range 3 {
				req, err := h.create(person("alice"), ask(t, use(i)))
				require.NoError(t, err)
				// Half of them are in the cache by now.
				if i%2 == 0 {
					h.store(req)
				}
			}
			_, err := h.create(person("alice"), ask(t, use(3)))
			require.ErrorContains(t, err, tc.want)
			_, err = h.create(person("alice"), ask(t, use(1)))
			require.NoError(t, err, "a question that is open already is free")
			_, err = h.create(person("alice"), ask(t, `spec: {objectRef: {name: harbor}}
metadata: {namespace: other}`))
			assert.Equal(t, name == "namespace", err == nil)
		})
	}
}

func TestLimitPerServiceAccount(t *testing.T) {
	h := newHarness(t, connector(), account("deployer"))
	h.webhook.Limits.PerServiceAccount = 2
	for i := range 3 {
		job := h.run("Job", fmt.Sprint("job-", i), "alice", nil, "deployer")
		_, err := h.create(person("alice"), ask(t, `spec: {context: {resource: {apiVersion: batch/v1, kind: Job, name: `+job.Name+`}}}`))
		assert.Equal(t, i < 2, err == nil, err)
	}
}

func TestOnlyRequestsThatStillAskCount(t *testing.T) {
	for name, tc := range map[string]struct {
		edit edit
		want bool
	}{
		"pending": {func(*approvalv1alpha1.ResourceCheckRequest) {}, false},
		"ended":   {ended(approvalv1alpha1.ReasonExpired, 0), true},
		"following": {func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Status.Follows = &approvalv1alpha1.RequestReference{Namespace: "a", Name: "b"}
		}, true},
		"granted": {func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Status.Validity = &approvalv1alpha1.Validity{NotBefore: metav1.NewTime(epoch), NotAfter: metav1.NewTime(now.Add(time.Hour))}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, connector())
			h.webhook.Limits.PerPerson = 1
			req, err := h.create(person("alice"), ask(t, ""))
			require.NoError(t, err)
			h.store(req, tc.edit)
			_, err = h.create(person("alice"), ask(t, `spec: {use: {operations: [Read]}}`))
			assert.Equal(t, tc.want, err == nil, err)
		})
	}
}

func TestDryRunsDoNotCount(t *testing.T) {
	h := newHarness(t, connector())
	h.webhook.Limits.PerPerson = 1
	for range 3 {
		_, err := h.admit(person("alice"), ask(t, `spec: {use: {operations: [Read]}}`), func(*unstructuredObject) {}, true)
		require.NoError(t, err)
	}
	_, err := h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
	h.clock.SetTime(now.Add(ledgerTime))
	_, err = h.create(person("alice"), ask(t, `spec: {use: {operations: [Read]}}`))
	require.NoError(t, err, "what was never stored stops counting")
}

func TestKeysOfLabelAndSpecAgree(t *testing.T) {
	h := newHarness(t, connector())
	req, err := h.create(person("alice"), ask(t, ""))
	require.NoError(t, err)
	in := fingerprint.FromRequest(&req.Spec)
	assert.Equal(t, fingerprint.Sum(&in).String(), req.Labels[approvalv1alpha1.LabelFingerprint])
	assert.Equal(t, "alice", admit.Username(req.Spec.Context.Subject))
}
