package cli

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/config/policies"
)

func TestWhatWritesCreatorRecordsIsFoundOut(t *testing.T) {
	webhooks := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: policies.CreatorRecord}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "mutatingwebhookconfigurations"}, policies.CreatorRecord, errors.New("no"))
	tests := map[string]struct {
		flag    string
		objects []runtime.Object
		fails   error
		want    bool
		err     string
	}{
		"webhooks are there":         {objects: []runtime.Object{webhooks}, want: true},
		"none are there":             {},
		"it may not be seen":         {fails: forbidden},
		"it cannot be seen":          {fails: errors.New("unreachable"), err: "unreachable"},
		"policies, says the flag":    {flag: "policy", objects: []runtime.Object{webhooks}},
		"webhooks, says the flag":    {flag: "webhook", want: true},
		"the flag is not understood": {flag: "guess", err: "--creator-record"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset(tt.objects...)
			if tt.fails != nil {
				kube.PrependReactor("get", "mutatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.fails })
			}
			got, err := epochOptions{creatorRecord: tt.flag}.webhook(t.Context(), kube)
			if tt.err != "" {
				assert.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestChainLooksWhereCountersignIsInstalled(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want epochOptions
	}{
		{nil, epochOptions{namespace: "countersign-system"}},
		{[]string{"--system-namespace", "gate", "--creator-record", "webhook"}, epochOptions{namespace: "gate", creatorRecord: "webhook"}},
	} {
		b := jobBench(makeBench(t, theJob()))
		p := b.program()
		var got epochOptions
		p.epoch = func(_ context.Context, _ *cluster, o epochOptions) (time.Time, string, error) {
			got = o
			return now.Add(-time.Hour), "", nil
		}
		require.Equal(t, ExitDone, p.run(t.Context(), append([]string{"--kubeconfig", b.kubeconfig, "chain", "job/release"}, tt.args...)), b.err.String())
		assert.Equal(t, tt.want, got)
	}
	makes, err := controllersIn("", "system:serviceaccount:gate:"+controllerAccount)
	require.NoError(t, err)
	run, release := schema.GroupKind{Group: "tekton.dev", Kind: "PipelineRun"}, releasev1alpha1.GroupVersion.WithKind("Release").GroupKind()
	assert.True(t, makes(run, release, "system:serviceaccount:gate:countersign-controller"))
	assert.False(t, makes(run, release, "system:serviceaccount:countersign-system:countersign-controller"))
}

func TestChainIsToldWhereToLook(t *testing.T) {
	for want, args := range map[string][]string{
		`--creator-record is "guess"`: {"--creator-record", "guess"},
		"--system-namespace is empty": {"--system-namespace", ""},
	} {
		b := jobBench(makeBench(t, theJob()))
		assert.Equal(t, ExitUsage, b.chainOf(append(args, "job/release")...), want)
		assert.Contains(t, b.err.String(), want)
	}
}

// However often the chain grows, the requests of a namespace are listed once.
func TestChainListsTheRequestsOfANamespaceOnce(t *testing.T) {
	top := theJob()
	top.Name, top.UID = "top", "uid-top"
	job := theJob()
	job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "top", UID: "uid-top", Controller: new(true)}}
	ofTop := makeRequest("rcr-2").Pending().With(forJob).With(func(r *approvalv1alpha1.ResourceCheckRequest) {
		r.Spec.Context.Resource.Name, r.Spec.Context.Resource.UID = "top", "uid-top"
	}).Obj()
	b := jobBench(makeBench(t, top, job, theCheck(), ofTop, makeRequest("rcr-1").Pending().With(forJob).Obj()))
	lists := map[string]int{}
	b.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		var all client.ListOptions
		all.ApplyOptions(options)
		switch list.(type) {
		case *approvalv1alpha1.ResourceCheckRequestList:
			lists[all.Namespace]++
		case *approvalv1alpha1.ApprovalResponseList:
			return nil
		}
		return c.List(ctx, list, options...)
	}
	require.Equal(t, ExitDone, b.chainOf("job/release"), b.err.String())
	for _, request := range []string{"rcr-1", "rcr-2"} {
		assert.Contains(t, b.out.String(), request)
	}
	assert.NotEmpty(t, lists)
	for namespace, times := range lists {
		assert.Equal(t, 1, times, namespace)
	}
}
