package env

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/AlaudaDevops/countersign/test/env/issuer"
)

func clientFor(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	return client
}

func whoAmI(t *testing.T, cfg *rest.Config) (authenticationv1.UserInfo, error) {
	t.Helper()
	review, err := clientFor(t, cfg).AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return review.Status.UserInfo, err
}

func TestPeopleByToken(t *testing.T) {
	cases := map[string]struct {
		claims     issuer.Claims
		wantGroups []string
		wantErr    bool
	}{
		"a person in groups": {
			claims:     issuer.Claims{Subject: "1", Email: "alice@example.com", Groups: []string{"owners"}, Audience: []string{ClientID}},
			wantGroups: []string{"owners", "system:authenticated"},
		},
		"another audience": {
			claims:  issuer.Claims{Subject: "1", Email: "alice@example.com", Audience: []string{"other"}},
			wantErr: true,
		},
		"expired": {
			claims:  issuer.Claims{Subject: "1", Email: "alice@example.com", Audience: []string{ClientID}, TTL: -time.Hour},
			wantErr: true,
		},
		"an email that nobody verified": {
			claims:  issuer.Claims{Subject: "1", Email: "alice@example.com", Audience: []string{ClientID}, Override: map[string]any{"email_verified": false}},
			wantErr: true,
		},
		"the name of a component": {
			claims:  issuer.Claims{Subject: "1", Email: "system:kube-controller-manager", Audience: []string{ClientID}},
			wantErr: true,
		},
		"a group of the system": {
			claims:  issuer.Claims{Subject: "1", Email: "alice@example.com", Groups: []string{"system:masters"}, Audience: []string{ClientID}},
			wantErr: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			token, err := cluster.Issuer().Mint(tc.claims)
			require.NoError(t, err)
			user, err := whoAmI(t, cluster.Bearer(token))
			if tc.wantErr {
				assert.True(t, apierrors.IsUnauthorized(err), "%v", err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.claims.Email, user.Username)
			assert.Equal(t, tc.claims.Subject, user.UID)
			assert.ElementsMatch(t, tc.wantGroups, user.Groups)
			credential := user.Extra["authentication.kubernetes.io/credential-id"]
			require.Len(t, credential, 1)
			assert.True(t, strings.HasPrefix(credential[0], "JTI="), credential[0])
		})
	}
}

func TestPersonHasAStableUID(t *testing.T) {
	uid := func(email string) string {
		cfg, err := cluster.Person(email, "owners")
		require.NoError(t, err)
		user, err := whoAmI(t, cfg)
		require.NoError(t, err)
		return user.UID
	}
	assert.Equal(t, uid("alice@example.com"), uid("alice@example.com"))
	assert.NotEqual(t, uid("alice@example.com"), uid("bob@example.com"))
}

func TestKeyRotationReachesTheAPIServer(t *testing.T) {
	require.NoError(t, cluster.Issuer().Rotate(1))
	cfg, err := cluster.Person("alice@example.com")
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := whoAmI(t, cfg)
		assert.NoError(c, err)
	}, patience, tick)
}

func TestPeopleByCertificate(t *testing.T) {
	user, err := whoAmI(t, cluster.Config("carol", "devs", "owners"))
	require.NoError(t, err)
	assert.Equal(t, "carol", user.Username)
	assert.ElementsMatch(t, []string{"devs", "owners", "system:authenticated"}, user.Groups)

	_, err = clientFor(t, cluster.Config("carol", "devs")).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "%v", err)
	_, err = clientFor(t, cluster.Anonymous()).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "%v", err)
	_, err = clientFor(t, cluster.Admin()).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	assert.NoError(t, err)
}

func TestKubeconfig(t *testing.T) {
	person, err := cluster.Person("alice@example.com")
	require.NoError(t, err)
	for want, cfg := range map[string]*rest.Config{"carol": cluster.Config("carol"), "alice@example.com": person} {
		content, err := cluster.Kubeconfig("test", cfg)
		require.NoError(t, err)
		loaded, err := clientcmd.RESTConfigFromKubeConfig(content)
		require.NoError(t, err)
		user, err := whoAmI(t, loaded)
		require.NoError(t, err)
		assert.Equal(t, want, user.Username)
	}
}

func TestJobsPodHasItsControllerAsCreator(t *testing.T) {
	namespace := cluster.Namespace(t)
	_, err := cluster.Client().BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "build"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "main", Image: "example.com/none"}},
		}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	var pods *corev1.PodList
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		pods, err = cluster.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(c, err)
		assert.Len(c, pods.Items, 1)
	}, patience, tick)
	owner := metav1.GetControllerOf(&pods.Items[0])
	require.NotNil(t, owner)
	assert.Equal(t, "build", owner.Name)
	assert.Equal(t, "system:serviceaccount:kube-system:job-controller", creatorOfPod(t, namespace))
}

func creatorOfPod(t *testing.T, namespace string) string {
	t.Helper()
	events, err := cluster.AuditEvents()
	require.NoError(t, err)
	for _, event := range events {
		created := event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusCreated
		if event.Verb == "create" && created && event.ObjectRef.Resource == "pods" && event.ObjectRef.Namespace == namespace {
			return event.User.Username
		}
	}
	return "nobody"
}

func newPod(t *testing.T, namespace string) *corev1.Pod {
	t.Helper()
	pod, err := cluster.Client().CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return pod
}

func TestToken(t *testing.T) {
	namespace := cluster.Namespace(t)
	pod := newPod(t, namespace)

	token, err := cluster.Token(t.Context(), namespace, "default", "", pod)
	require.NoError(t, err)
	user, err := whoAmI(t, cluster.Bearer(token))
	require.NoError(t, err)
	assert.Equal(t, "system:serviceaccount:"+namespace+":default", user.Username)
	assert.Equal(t, authenticationv1.ExtraValue{string(pod.UID)}, user.Extra["authentication.kubernetes.io/pod-uid"])
	assert.Equal(t, authenticationv1.ExtraValue{pod.Name}, user.Extra["authentication.kubernetes.io/pod-name"])

	foreign, err := cluster.Token(t.Context(), namespace, "default", "connector-proxy", pod)
	require.NoError(t, err)
	_, err = whoAmI(t, cluster.Bearer(foreign))
	assert.True(t, apierrors.IsUnauthorized(err), "a token for another audience: %v", err)

	_, err = cluster.Token(t.Context(), namespace, "missing", "", nil)
	assert.ErrorContains(t, err, namespace+"/missing")

	// The API server trusts a token for some seconds once it has seen it, so this one was never used.
	unused, err := cluster.Token(t.Context(), namespace, "default", "", pod)
	require.NoError(t, err)
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	require.NoError(t, cluster.Client().CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, now))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := whoAmI(t, cluster.Bearer(unused))
		assert.True(c, apierrors.IsUnauthorized(err), "the token outlives its pod: %v", err)
	}, patience, tick)
}

func TestGarbageCollection(t *testing.T) {
	namespace := cluster.Namespace(t)
	maps := cluster.Client().CoreV1().ConfigMaps(namespace)
	owner, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            "child",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)

	require.NoError(t, maps.Delete(t.Context(), owner.Name, metav1.DeleteOptions{}))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := maps.Get(t.Context(), "child", metav1.GetOptions{})
		assert.True(c, apierrors.IsNotFound(err), "%v", err)
	}, patience, tick)
}

func TestClusterRoleAggregation(t *testing.T) {
	roles := cluster.Client().RbacV1().ClusterRoles()
	label := map[string]string{"env.test/aggregate": "true"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	for _, role := range []*rbacv1.ClusterRole{
		{ObjectMeta: metav1.ObjectMeta{Name: "env-part", Labels: label}, Rules: rules},
		{
			ObjectMeta:      metav1.ObjectMeta{Name: "env-whole"},
			AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: label}}},
		},
	} {
		_, err := roles.Create(t.Context(), role, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		whole, err := roles.Get(t.Context(), "env-whole", metav1.GetOptions{})
		require.NoError(c, err)
		assert.Equal(c, rules, whole.Rules)
	}, patience, tick)
}

func TestNamespace(t *testing.T) {
	var first string
	t.Run("Names With/Odd_characters", func(t *testing.T) {
		first = cluster.Namespace(t)
		assert.True(t, strings.HasPrefix(first, "testnamespace-names-with-odd-characters-"), first)
		assert.NotEqual(t, first, cluster.Namespace(t))
	})
	namespace, err := cluster.Client().CoreV1().Namespaces().Get(t.Context(), first, metav1.GetOptions{})
	if err == nil {
		assert.NotNil(t, namespace.DeletionTimestamp)
	}
	assert.NoError(t, client.IgnoreNotFound(err))
}
