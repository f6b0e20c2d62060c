package webhook

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	connectorsv1alpha1 "github.com/AlaudaDevops/countersign/apis/connectors/v1alpha1"
)

func TestS1_PersonAsksForHimself(t *testing.T) {
	w := newWorld(t)
	config, err := cluster.Person(w.name("alice"), "developers")
	require.NoError(t, err)
	w.person("alice")
	r := w.request(func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.RequestedBy = &approvalv1alpha1.Identity{Username: "mallory", Groups: []string{"owners"}}
		r.Spec.TimeRange = &approvalv1alpha1.TimeRange{Duration: &metav1.Duration{Duration: 90 * time.Minute}}
	})
	w.create(as(t, config), r)

	assert.Equal(t, approvalv1alpha1.SubjectUser, r.Spec.Context.Subject.Kind)
	assert.Equal(t, w.name("alice"), r.Spec.Context.Subject.Name)
	assert.NotEmpty(t, r.Spec.Context.Subject.UID, "the issuer maps a uid")
	assert.Equal(t, w.name("alice"), r.Spec.RequestedBy.Username)
	assert.Equal(t, []string{"developers"}, r.Spec.RequestedBy.Groups)
	assert.Contains(t, r.Spec.RequestedBy.Extra["authentication.kubernetes.io/credential-id"][0], "JTI=")
	assert.NotEmpty(t, r.Spec.ObjectRef.UID)
	assert.Equal(t, w.namespace, r.Spec.ObjectRef.Namespace)
	assert.True(t, strings.HasPrefix(r.Name, "rcr-"))
}

func TestS1_PodOfAJobAsksForTheJob(t *testing.T) {
	w := newWorld(t)
	w.account("builder")
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "build"}}
	job.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: "builder", RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "none"}}}
	w.create(w.admin, job)
	var pods corev1.PodList
	eventually(t, func(ctx context.Context) error {
		if err := w.admin.List(ctx, &pods, client.InNamespace(w.namespace)); err != nil || len(pods.Items) == 0 {
			return fmt.Errorf("no pod of the job yet: %w", err)
		}
		return nil
	})
	pod := &pods.Items[0]
	r := w.request(func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.Reason = "" })
	w.create(w.pod(pod), r)

	assert.Equal(t, &approvalv1alpha1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: w.namespace, Name: "build", UID: job.UID}, r.Spec.Context.Resource)
	assert.Equal(t, &approvalv1alpha1.PodReference{Namespace: w.namespace, Name: pod.Name, UID: pod.UID}, r.Spec.Context.Pod)
	assert.Equal(t, "builder", r.Spec.Context.Subject.Name)
	assert.NotEmpty(t, r.Spec.Context.Token.JTI)
}

func TestS1_PodOfAPipelineRunAsksForTheRun(t *testing.T) {
	w := newWorld(t)
	w.account("deployer")
	p := w.pipeline(w.tenant("alice"), "run", "deployer")
	r := w.request()
	w.create(w.pod(p.pod), r)
	assert.Equal(t, p.run.GetUID(), r.Spec.Context.Resource.UID)
	assert.Equal(t, "run", r.Labels[approvalv1alpha1.LabelTektonPipelineRun])
	assert.Equal(t, "run-push", r.Labels[approvalv1alpha1.LabelTektonTaskRun])
}

func TestS1_ForgedOwnersMakeTheContextNarrower(t *testing.T) {
	w := newWorld(t)
	w.account("deployer")
	mallory := w.tenant("mallory")
	p := w.pipeline(w.tenant("alice"), "run", "deployer")

	forgedPod := w.newPod("forged", "deployer", p.task)
	w.create(mallory, forgedPod)
	r := w.request()
	w.create(w.pod(forgedPod), r)
	assert.Equal(t, forgedPod.UID, r.Spec.Context.Resource.UID)

	forgedTask := w.newRun("TaskRun", "forged", "deployer", p.run)
	w.create(mallory, forgedTask)
	pod := w.newPod("of-forged-task", "deployer", forgedTask)
	w.create(w.tekton(), pod)
	r = w.request()
	w.create(w.pod(pod), r)
	assert.Equal(t, forgedTask.GetUID(), r.Spec.Context.Resource.UID, "the task is proven, the run is not")

	later := w.newPod("later", "deployer", nil)
	w.create(w.tekton(), later)
	own(later, p.task)
	require.NoError(t, mallory.Update(t.Context(), later))
	r = w.request()
	w.create(w.pod(later), r)
	assert.Equal(t, later.UID, r.Spec.Context.Resource.UID, "an owner that was set later does not count")

	record := w.newPod("record", "deployer", p.task)
	record.Annotations = map[string]string{approvalv1alpha1.AnnotationCreatedBy: tektonController, approvalv1alpha1.AnnotationCreatedFor: string(p.task.GetUID())}
	w.create(mallory, record)
	r = w.request()
	w.create(w.pod(record), r)
	assert.Equal(t, record.UID, r.Spec.Context.Resource.UID, "the record is the server's")
}

func TestS1_DifferingValuesAreRefused(t *testing.T) {
	w := newWorld(t)
	w.account("deployer")
	w.account("other")
	p := w.pipeline(w.tenant("alice"), "run", "deployer")
	another := w.pipeline(w.tenant("alice"), "another", "deployer")
	by := w.pod(p.pod)
	for want, edit := range map[string]func(*approvalv1alpha1.ResourceCheckRequest){
		"spec.context.subject.name": func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.Context.Subject = &approvalv1alpha1.Subject{Kind: "ServiceAccount", Name: "other"}
		},
		"spec.context.token.jti": func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.Context.Token = &approvalv1alpha1.TokenReference{JTI: "x"}
		},
		"spec.context.pod.name": func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.Context.Pod = &approvalv1alpha1.PodReference{Namespace: w.namespace, Name: "x", UID: "x"}
		},
		"spec.context.resource.name": forRun(another.run, ""),
		"spec.objectRef.uid":         func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.ObjectRef.UID = "x" },
		"metadata.name":              func(r *approvalv1alpha1.ResourceCheckRequest) { r.GenerateName, r.Name = "", "rcr-mine" },
	} {
		refused(t, by.Create(t.Context(), w.request(edit)), want)
	}
}

func TestS1_RequestsForARun(t *testing.T) {
	w := newWorld(t)
	w.account("deployer")
	alice, mallory := w.tenant("alice"), w.person("mallory")
	p := w.pipeline(alice, "run", "deployer")

	r := w.request(forRun(p.run, ""))
	w.create(alice, r)
	assert.Equal(t, "deployer", r.Spec.Context.Subject.Name)
	assert.NotEmpty(t, r.Spec.Context.Subject.UID)
	assert.Equal(t, p.run.GetUID(), r.Spec.Context.Resource.UID)
	assert.Nil(t, r.Spec.Context.Pod)

	refused(t, mallory.Create(t.Context(), w.request(forRun(p.run, ""))), "only who created PipelineRun")
	refused(t, alice.Create(t.Context(), w.request(forRun(p.task, ""))), "ask for PipelineRun")
	refused(t, alice.Create(t.Context(), w.request(forRun(p.run, "default"))), "does not use the service account")

	w.allow("mallory", rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.AuthorityGroup}, Resources: []string{"serviceaccounts"}, Verbs: []string{"request-for"}})
	err := mallory.Create(t.Context(), w.request(forRun(p.run, "")))
	assert.True(t, apierrors.IsAlreadyExists(err), "the same is asked already: %v", err)
	assert.Equal(t, []string{w.name("mallory")}, reread(w, r).Status.Askers)
}

func TestS1_CustomTaskAsksFromItsOwnPod(t *testing.T) {
	w := newWorld(t)
	w.account("deployer")
	w.account("custom-task")
	w.bind(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: "custom-task"},
		rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.AuthorityGroup}, Resources: []string{"serviceaccounts"}, Verbs: []string{"request-for"}})
	p := w.pipeline(w.tenant("alice"), "run", "deployer")
	pod := w.newPod("custom-task", "custom-task", nil)
	w.create(w.admin, pod)
	r := w.request(forRun(p.run, ""))
	w.create(w.pod(pod), r)
	assert.Equal(t, "deployer", r.Spec.Context.Subject.Name)
	assert.Equal(t, p.run.GetUID(), r.Spec.Context.Resource.UID)
	assert.Equal(t, "system:serviceaccount:"+w.namespace+":custom-task", r.Spec.RequestedBy.Username)
}

func TestS1_UnboundServiceAccounts(t *testing.T) {
	w := newWorld(t)
	w.account("ci")
	refused(t, w.unbound("ci").Create(t.Context(), w.request()), "the token belongs to no pod")

	harbor := reread(w, &connectorsv1alpha1.Connector{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "harbor"}})
	harbor.Spec.AllowUnboundServiceAccounts = true
	require.NoError(t, w.admin.Update(t.Context(), harbor))
	r := w.request()
	w.create(w.unbound("ci"), r)
	assert.NotEmpty(t, r.Spec.Context.Token.JTI)
}

func TestS3_UserNamesAreKeptExactly(t *testing.T) {
	w := newWorld(t)
	for i, name := range []string{"müller@example.org", "a b/c:d*e", "日本語", strings.Repeat("x", 300), "UPPER_lower.-", `quo"te\back`} {
		w.mayUse(name)
		r := w.request(func(r *approvalv1alpha1.ResourceCheckRequest) { r.GenerateName, r.Name = "", fmt.Sprint("named-", i) })
		by := impersonate(t, name)
		w.bind(rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name},
			rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.GroupVersion.Group}, Resources: []string{"resourcecheckrequests"}, Verbs: []string{"create"}})
		require.NoError(t, by.Create(t.Context(), r), name)
		assert.Equal(t, name, r.Spec.Context.Subject.Name)
		assert.Equal(t, name, r.Spec.RequestedBy.Username)
	}
}

func TestS14_SubjectWithoutTheRightIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.allow("eve", rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"create"}})
	eve := as(t, cluster.Config(w.name("eve")))
	forbidden := eve.Create(t.Context(), w.request())
	unknown := eve.Create(t.Context(), newRequest(w.namespace, "absent"))
	refused(t, forbidden, `lacks the verb "write" on connectors/apis`)
	assert.Equal(t, forbidden.Error(), strings.ReplaceAll(unknown.Error(), "absent", "harbor"), "nothing is told of what is there")

	w.allow("eve", rbacv1.PolicyRule{APIGroups: []string{connectorsv1alpha1.GroupVersion.Group}, Resources: []string{"connectors/apis"}, Verbs: []string{"read"}})
	require.NoError(t, eve.Create(t.Context(), w.request(func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Use = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{"Read"}}
	})))
	refused(t, eve.Create(t.Context(), w.request()), `lacks the verb "write"`)

	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "settings"}}
	w.create(w.admin, config)
	other := w.request(func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.ObjectRef = approvalv1alpha1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Name: "settings"}
	})
	refused(t, eve.Create(t.Context(), other.DeepCopy()), `lacks the verb "request" on it`)
}

func TestEqualAsksCollide(t *testing.T) {
	w := newWorld(t)
	alice := w.person("alice")
	live := w.request()
	w.create(alice, live)

	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			err := alice.Create(t.Context(), w.request(func(r *approvalv1alpha1.ResourceCheckRequest) { r.Spec.Reason = "again" }))
			assert.True(t, apierrors.IsAlreadyExists(err), "%v", err)
			assert.NoError(t, isConflict(err, live.Name))
		})
	}
	asking.Wait()

	w.setStatus(live, func(s *approvalv1alpha1.ResourceCheckRequestStatus) {
		s.Ended = &approvalv1alpha1.Ended{At: metav1.Now(), Reason: approvalv1alpha1.ReasonExpired}
	})
	next := w.request()
	w.create(alice, next)
	assert.NotEqual(t, live.Name, next.Name)

	mine := w.request(func(r *approvalv1alpha1.ResourceCheckRequest) { r.GenerateName, r.Name = "", "mine" })
	w.create(alice, mine)
	assert.Equal(t, "mine", mine.Name)
}

func TestEqualFirstAsksEndInOne(t *testing.T) {
	w := newWorld(t)
	alice := w.person("alice")
	var asking sync.WaitGroup
	results := make(chan error, 8)
	for range cap(results) {
		asking.Go(func() { results <- alice.Create(t.Context(), w.request()) })
	}
	asking.Wait()
	created := 0
	for range cap(results) {
		if err := <-results; err == nil {
			created++
		} else {
			assert.True(t, apierrors.IsAlreadyExists(err), "%v", err)
		}
	}
	assert.Equal(t, 1, created)
}

func TestS7_AskersThatComeTogetherAreAllRecorded(t *testing.T) {
	w := newWorld(t)
	w.account("deployer")
	p := w.pipeline(w.tenant("alice"), "run", "deployer")
	live := w.request()
	w.create(w.pod(p.pod), live)

	var want []string
	var asking sync.WaitGroup
	for i := range 6 {
		name := fmt.Sprint("helper-", i)
		want = append(want, w.name(name))
		helper := w.person(name)
		w.allow(name, rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.AuthorityGroup}, Resources: []string{"serviceaccounts"}, Verbs: []string{"request-for"}})
		asking.Go(func() {
			assert.True(t, apierrors.IsAlreadyExists(helper.Create(t.Context(), w.request(forRun(p.run, "deployer")))))
		})
	}
	asking.Wait()
	assert.ElementsMatch(t, want, reread(w, live).Status.Askers)

	dry := w.person("dry")
	w.allow("dry", rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.AuthorityGroup}, Resources: []string{"serviceaccounts"}, Verbs: []string{"request-for"}})
	assert.True(t, apierrors.IsAlreadyExists(dry.Create(t.Context(), w.request(forRun(p.run, "deployer")), client.DryRunAll)))
	assert.NotContains(t, reread(w, live).Status.Askers, w.name("dry"))
}

func TestRejectionIsFinalForPods(t *testing.T) {
	w := newWorld(t)
	w.account("deployer")
	alice := w.tenant("alice")
	p := w.pipeline(alice, "run", "deployer")
	by := w.pod(p.pod)
	r := w.request()
	w.create(by, r)
	w.setStatus(r, func(s *approvalv1alpha1.ResourceCheckRequestStatus) {
		s.Ended = &approvalv1alpha1.Ended{At: metav1.Now(), Reason: approvalv1alpha1.ReasonChecksRejected, Message: "bob says: wrong image"}
	})
	err := by.Create(t.Context(), w.request())
	refused(t, err, "final for the pods and tasks")
	assert.True(t, apierrors.HasStatusCause(err, approvalv1alpha1.ReasonChecksRejected))
	w.create(alice, w.request(forRun(p.run, "deployer")))
}

func TestRevocationByAnOwnerHoldsElsewhereToo(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	alice := w.person("alice")
	other.bind(rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: w.name("alice")},
		rbacv1.PolicyRule{APIGroups: []string{approvalv1alpha1.GroupVersion.Group}, Resources: []string{"resourcecheckrequests"}, Verbs: []string{"create"}})
	r := w.request()
	w.create(alice, r)
	w.setStatus(r, func(s *approvalv1alpha1.ResourceCheckRequestStatus) {
		until := metav1.NewTime(time.Now().Add(time.Hour))
		s.Ended = &approvalv1alpha1.Ended{At: metav1.Now(), Reason: approvalv1alpha1.ReasonRevoked, HoldUntil: &until}
	})
	refused(t, alice.Create(t.Context(), w.request()), "holds the same question back")
	elsewhere := w.request(func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Namespace, r.Spec.ObjectRef.Namespace = other.namespace, w.namespace
	})
	refused(t, alice.Create(t.Context(), elsewhere), "holds the same question back")
}

func TestLimitPerPerson(t *testing.T) {
	w := newWorld(t)
	alice := w.person("alice")
	ask := func(i int) error {
		return alice.Create(t.Context(), w.request(func(r *approvalv1alpha1.ResourceCheckRequest) {
			r.Spec.Use = &approvalv1alpha1.OperationSelector{HTTP: &approvalv1alpha1.HTTPSelector{Paths: []string{fmt.Sprintf("/v2/%d/**", i)}}}
		}))
	}
	for i := range 10 {
		require.NoError(t, ask(i))
	}
	err := ask(10)
	refused(t, err, "you have 10 open requests")
	assert.True(t, apierrors.IsTooManyRequests(err))
}

func TestS2_WellMeantFullUpdateSucceedsWithEverythingKept(t *testing.T) {
	w := newWorld(t)
	w.account("deployer")
	p := w.pipeline(w.tenant("alice"), "run", "deployer")
	r := w.request(func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.TimeRange = &approvalv1alpha1.TimeRange{Duration: &metav1.Duration{Duration: 90 * time.Minute}}
	})
	w.create(w.pod(p.pod), r)
	stored := reread(w, r)
	tool := w.tenant("gitops")
	for name, strip := range map[string]func(*unstructured.Unstructured){
		"context": func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "context") },
		"deep": func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "spec", "context", "subject", "uid")
		},
		"asker":    func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "requestedBy") },
		"duration": func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "timeRange") },
		"labels":   func(u *unstructured.Unstructured) { u.SetLabels(nil) },
		"garbage": func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "dead", UID: types.UID("dead")}})
			u.SetFinalizers([]string{"example.com/keep"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(approvalv1alpha1.GroupVersion.WithKind("ResourceCheckRequest"))
			require.NoError(t, w.admin.Get(t.Context(), client.ObjectKeyFromObject(r), u))
			strip(u)
			require.NoError(t, tool.Update(t.Context(), u))
			got := reread(w, r)
			assert.Equal(t, stored.Spec, got.Spec)
			assert.Equal(t, stored.Labels, got.Labels)
			assert.Empty(t, got.OwnerReferences)
			assert.Empty(t, got.Finalizers)
		})
	}
	changed := reread(w, r)
	changed.Spec.Context.Subject.Name = "admin"
	require.ErrorContains(t, tool.Update(t.Context(), changed), "a request cannot be changed")
	changed = reread(w, r)
	changed.Spec.Use = &approvalv1alpha1.OperationSelector{Operations: []approvalv1alpha1.OperationClass{"Read", "Write"}}
	require.ErrorContains(t, tool.Update(t.Context(), changed), "a request cannot be changed")
}

func TestS1_RevokerIsCaptured(t *testing.T) {
	w := newWorld(t)
	w.account("deployer")
	alice, mallory := w.tenant("alice"), w.tenant("mallory")
	p := w.pipeline(alice, "run", "deployer")
	r := w.request()
	w.create(w.pod(p.pod), r)

	forged := metav1.NewTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	revoked := reread(w, r)
	revoked.Spec.Revoked = &approvalv1alpha1.Revocation{Reason: "wrong image", By: "somebody", At: &forged}
	refused(t, mallory.Update(t.Context(), revoked.DeepCopy()), "may revoke a request")
	require.NoError(t, alice.Update(t.Context(), revoked))
	got := reread(w, r).Spec.Revoked
	assert.Equal(t, w.name("alice"), got.By)
	assert.True(t, got.At.After(forged.Time))

	again := reread(w, r)
	again.Spec.Revoked.Reason = "other words"
	require.ErrorContains(t, alice.Update(t.Context(), again), "revoked")
	kept := reread(w, r)
	kept.Spec.Revoked = nil
	require.NoError(t, alice.Update(t.Context(), kept))
	assert.Equal(t, "wrong image", reread(w, r).Spec.Revoked.Reason)
}
