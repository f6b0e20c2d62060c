package release

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
	"github.com/AlaudaDevops/countersign/pkg/attribution"
)

// world is a namespace in which everybody with a name may write Releases and their plans.
type world struct {
	t         testing.TB
	namespace string
	words     attribution.Vocabulary
	admin     client.Client
}

func newWorld(t testing.TB) *world { return newWorldWith(t, attribution.VocabularyRHTAP) }

func newWorldWith(t testing.TB, vocabulary string) *world {
	t.Helper()
	words, err := attribution.LookupVocabulary(vocabulary)
	require.NoError(t, err)
	w := &world{t: t, namespace: cluster.Namespace(t), words: words, admin: as(t, cluster.Admin())}
	worlds.Store(w.namespace, vocabulary)
	w.bind("ClusterRole", "countersign-release-manager", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"})
	// A role binding counts a moment after it is made.
	eventually(t, func(ctx context.Context) error { return w.may(ctx, "anybody", "create", "releaseplans", "", true) })
	return w
}

func (w *world) bind(kind, role string, subject rbacv1.Subject) {
	w.t.Helper()
	require.NoError(w.t, w.admin.Create(w.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "binding-"}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
	}))
}

// mayAll gives a person every right in the namespace, and none elsewhere.
func (w *world) mayAll(person string) {
	w.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "all-"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}
	require.NoError(w.t, w.admin.Create(w.t.Context(), role))
	w.bind("Role", role.Name, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: person})
	eventually(w.t, func(ctx context.Context) error { return w.may(ctx, person, "update", "releases", "status", true) })
}

func as(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// user acts under the name, whatever it is.
func (w *world) user(name string) client.Client {
	w.t.Helper()
	config := cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	return as(w.t, config)
}

// decider is our controller, which holds the verb decide.
func (w *world) decider() client.Client {
	w.t.Helper()
	token, err := cluster.Token(w.t.Context(), systemNamespace, controllerAccount, "", nil)
	require.NoError(w.t, err)
	return as(w.t, cluster.Bearer(token))
}

func (w *world) plan(name string, edits ...func(*releasev1alpha1.ReleasePlan)) *releasev1alpha1.ReleasePlan {
	plan := &releasev1alpha1.ReleasePlan{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       releasev1alpha1.ReleasePlanSpec{Application: "shop", Target: "managed"},
	}
	for _, edit := range edits {
		edit(plan)
	}
	return plan
}

// asking sets the label by which a plan asks for somebody to stand for it.
func (w *world) asking(plan *releasev1alpha1.ReleasePlan) {
	w.label(plan, w.words.StandingLabel, "true")
}

// proposing names the person who should stand.
func (w *world) proposing(person string) func(*releasev1alpha1.ReleasePlan) {
	return func(plan *releasev1alpha1.ReleasePlan) {
		w.asking(plan)
		annotate(plan, approvalv1alpha1.AnnotationProposed, person)
	}
}

func (w *world) release(name string, edits ...func(*releasev1alpha1.Release)) *releasev1alpha1.Release {
	release := &releasev1alpha1.Release{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       releasev1alpha1.ReleaseSpec{Snapshot: "snapshot", ReleasePlan: "plan"},
	}
	for _, edit := range edits {
		edit(release)
	}
	return release
}

// automated sets the label by which a program says that it is one.
func (w *world) automated(release *releasev1alpha1.Release) {
	w.label(release, w.words.AutomatedLabel, "true")
}

func (w *world) label(object client.Object, name, value string) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[name] = value
	object.SetLabels(labels)
}

func annotate(object client.Object, name, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = value
	object.SetAnnotations(annotations)
}

func (w *world) create(by client.Client, object client.Object) {
	w.t.Helper()
	require.NoError(w.t, by.Create(w.t.Context(), object))
}

func reread[T client.Object](w *world, object T) T {
	w.t.Helper()
	stored := object.DeepCopyObject().(T)
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(object), stored))
	return stored
}

// edit changes an object as somebody by a merge patch.
func edit[T client.Object](w *world, by client.Client, object T, change func(T)) error {
	w.t.Helper()
	stored := reread(w, object)
	before := stored.DeepCopyObject().(T)
	change(stored)
	return by.Patch(w.t.Context(), stored, client.MergeFrom(before))
}

// record is all that admission wrote.
type record struct{ author, automated, standing, authorLabel, automatedLabel string }

func (w *world) record(object client.Object) record {
	a, l := object.GetAnnotations(), object.GetLabels()
	return record{a[approvalv1alpha1.AnnotationAuthor], a[approvalv1alpha1.AnnotationAutomated], a[approvalv1alpha1.AnnotationStanding],
		l[w.words.AuthorLabel], l[w.words.AutomatedLabel]}
}

// standing reads the annotation, which must be there.
func standing(t testing.TB, object client.Object) *attribution.Standing {
	t.Helper()
	s, err := attribution.ParseStanding(object.GetAnnotations()[approvalv1alpha1.AnnotationStanding])
	require.NoError(t, err)
	return s
}

// stands asserts who stands for the plan as it is stored: the person, or nobody.
func (w *world) stands(plan *releasev1alpha1.ReleasePlan, person string) {
	w.t.Helper()
	stored := reread(w, plan)
	got := w.record(stored)
	if person == "" {
		assert.Equal(w.t, record{}, got)
		return
	}
	assert.Equal(w.t, person, got.author)
	assert.Equal(w.t, attribution.LabelValue(person), got.authorLabel)
	s := standing(w.t, stored)
	assert.Equal(w.t, person, s.Author)
	assert.Equal(w.t, stored.Generation, s.Generation, "the generation is the one that the API server gave")
	assert.False(w.t, s.AcceptedAt.IsZero())
	assert.NotContains(w.t, stored.Annotations, approvalv1alpha1.AnnotationAccept)
}

// refused asserts that our webhook said no, with the words.
func refused(t testing.TB, err error, words string) {
	t.Helper()
	if assert.ErrorContains(t, err, "admission webhook") {
		assert.ErrorContains(t, err, words)
	}
}

// applied is an object as it is sent for server-side apply.
func applied(plain map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: plain}
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	u.SetUID("")
	u.SetGeneration(0)
	u.SetCreationTimestamp(metav1.Time{})
	delete(u.Object, "status")
	return u
}

// metadataPatch replaces labels and annotations by those of the object, whether it has any or not.
func metadataPatch(t testing.TB, object client.Object) []byte {
	t.Helper()
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/metadata/labels", "value": object.GetLabels()},
		{"op": "add", "path": "/metadata/annotations", "value": object.GetAnnotations()},
	})
	require.NoError(t, err)
	return patch
}

// eventually waits until the condition returns no error.
func eventually(t testing.TB, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waited in vain: %v", last)
	}
}

// documents takes a stream of YAML apart.
func documents(stream string) []string {
	return strings.Split(strings.TrimPrefix(stream, "---\n"), "\n---\n")
}
