package fingerprint

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

func question() Input {
	return Input{
		Object:   Object{Group: "connectors.alaudadevops.io", Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "o1"},
		Subject:  Subject{Kind: ServiceAccount, Namespace: "dev", Name: "builder", UID: "s1"},
		Resource: &Object{Group: "tekton.dev", Kind: "PipelineRun", Namespace: "dev", Name: "run-1", UID: "r1"},
	}
}

func TestSumTellsQuestionsApart(t *testing.T) {
	changes := map[string]func(*Input){
		"object group":       func(in *Input) { in.Object.Group = "x" },
		"object kind":        func(in *Input) { in.Object.Kind = "x" },
		"object namespace":   func(in *Input) { in.Object.Namespace = "x" },
		"object name":        func(in *Input) { in.Object.Name = "x" },
		"object uid":         func(in *Input) { in.Object.UID = "x" },
		"subject kind":       func(in *Input) { in.Subject.Kind = User },
		"subject namespace":  func(in *Input) { in.Subject.Namespace = "x" },
		"subject name":       func(in *Input) { in.Subject.Name = "x" },
		"subject uid":        func(in *Input) { in.Subject.UID = "x" },
		"resource group":     func(in *Input) { in.Resource.Group = "x" },
		"resource kind":      func(in *Input) { in.Resource.Kind = "x" },
		"resource namespace": func(in *Input) { in.Resource.Namespace = "x" },
		"resource name":      func(in *Input) { in.Resource.Name = "x" },
		"resource uid":       func(in *Input) { in.Resource.UID = "x" },
		"no resource":        func(in *Input) { in.Resource = nil },
		"token instead":      func(in *Input) { in.Resource, in.JTI = nil, "j1" },
		"moved character":    func(in *Input) { in.Object.Namespace, in.Object.Name = "prodh", "arbor" },
	}
	base := question()
	seen := map[Key]string{Sum(&base): "unchanged"}
	for name, change := range changes {
		in := question()
		change(&in)
		key := Sum(&in)
		assert.NotContains(t, seen, key, "%s has the fingerprint of %s", name, seen[key])
		seen[key] = name
	}
}

func TestSumIgnoresTokenOfContextBound(t *testing.T) {
	first, second := question(), question()
	first.JTI, second.JTI = "j1", "j2"
	assert.Equal(t, Sum(&first), Sum(&second))
}

func TestSumIsStable(t *testing.T) {
	in := question()
	key := Sum(&in)
	assert.Equal(t, "v17xl2azmyomteqoxed6fna23pk7qu54grub4ak42kz43y4cato5ya", key.String(),
		"stored fingerprints must survive an upgrade: change the version tag with the form")
	assert.Equal(t, []Key{key}, Keys(&in))
}

func TestSumDoesNotAllocate(t *testing.T) {
	in := question()
	assert.Zero(t, testing.AllocsPerRun(100, func() { Sum(&in) }))
}

func TestKeyIsLabelValue(t *testing.T) {
	in := question()
	assert.Regexp(t, regexp.MustCompile(`^v1[a-z2-7]{52}$`), Sum(&in).String())
}

func TestFromRequest(t *testing.T) {
	spec := approvalv1alpha1.ResourceCheckRequestSpec{
		ObjectRef: approvalv1alpha1.ObjectReference{
			APIVersion: "connectors.alaudadevops.io/v1alpha1", Kind: "Connector", Namespace: "prod", Name: "harbor", UID: "o1"},
		Context: approvalv1alpha1.RequestContext{
			Subject:  &approvalv1alpha1.Subject{Kind: approvalv1alpha1.SubjectServiceAccount, Namespace: "dev", Name: "builder", UID: "s1"},
			Token:    &approvalv1alpha1.TokenReference{JTI: "j1"},
			Resource: &approvalv1alpha1.ObjectReference{APIVersion: "tekton.dev/v1", Kind: "PipelineRun", Namespace: "dev", Name: "run-1", UID: "r1"},
		},
	}
	want := question()
	want.JTI = "j1"
	assert.Equal(t, want, FromRequest(&spec))

	spec.Context.Resource.APIVersion = "tekton.dev/v1beta1"
	assert.Equal(t, want, FromRequest(&spec), "the version of a kind is no part of the question")
	assert.Equal(t, Input{}, FromRequest(&approvalv1alpha1.ResourceCheckRequestSpec{}))
}

func TestRequestName(t *testing.T) {
	in := question()
	key := Sum(&in)
	name := RequestName(key, "use", "range", "")
	assert.Regexp(t, `^rcr-[a-z2-7]{8}-[a-z2-7]{8}$`, name)
	assert.Contains(t, key.String(), name[len("rcr-"):len("rcr-")+prefixLength])
	assert.Equal(t, name, RequestName(key, "use", "range", ""))
	for _, other := range []string{
		RequestName(key, "other", "range", ""), RequestName(key, "use", "other", ""), RequestName(key, "use", "range", "u1"),
		RequestName(key, "user", "ange", ""), RequestName(Key{}, "use", "range", ""),
	} {
		assert.NotEqual(t, name, other)
	}
}

func TestCheckName(t *testing.T) {
	dnsLabel := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	tests := map[string]struct{ rule, wantPrefix string }{
		"plain":        {"prod-push", "prod-push-"},
		"dots":         {"prod.push", "prod-push-"},
		"long":         {strings.Repeat("a", 253), strings.Repeat("a", 46) + "-"},
		"cut at a dot": {strings.Repeat("a", 45) + "." + strings.Repeat("b", 9), strings.Repeat("a", 45) + "-"},
		"empty":        {"", "check-"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := CheckName(Key{1}, tt.rule, "u1", 1, "")
			assert.Regexp(t, dnsLabel, got)
			assert.LessOrEqual(t, len(got), 63)
			assert.True(t, strings.HasPrefix(got, tt.wantPrefix), got)
		})
	}
	base := CheckName(Key{1}, "rule", "u1", 1, "")
	for _, other := range []string{
		CheckName(Key{2}, "rule", "u1", 1, ""), CheckName(Key{1}, "rule", "u2", 1, ""),
		CheckName(Key{1}, "rule", "u1", 2, ""), CheckName(Key{1}, "rule", "u1", 1, "r1"),
	} {
		assert.NotEqual(t, base, other)
	}
}

func TestUseText(t *testing.T) {
	read, write := approvalv1alpha1.OperationRead, approvalv1alpha1.OperationWrite
	same := map[string][2]*approvalv1alpha1.OperationSelector{
		"absent is write":        {nil, {Operations: []approvalv1alpha1.OperationClass{write}}},
		"empty is absent":        {nil, {HTTP: &approvalv1alpha1.HTTPSelector{}}},
		"order does not matter":  {{Operations: []approvalv1alpha1.OperationClass{read, write}}, {Operations: []approvalv1alpha1.OperationClass{write, read}}},
		"paths alone: any class": {{HTTP: &approvalv1alpha1.HTTPSelector{Paths: []string{"/a"}}}, {Operations: []approvalv1alpha1.OperationClass{read, write}, HTTP: &approvalv1alpha1.HTTPSelector{Paths: []string{"/a"}}}},
	}
	for name, pair := range same {
		assert.Equal(t, UseText(pair[0]), UseText(pair[1]), name)
	}
	different := map[string][2]*approvalv1alpha1.OperationSelector{
		"read":             {nil, {Operations: []approvalv1alpha1.OperationClass{read}}},
		"method, not path": {{HTTP: &approvalv1alpha1.HTTPSelector{Methods: []string{"/a"}}}, {HTTP: &approvalv1alpha1.HTTPSelector{Paths: []string{"/a"}}}},
		"joined paths":     {{HTTP: &approvalv1alpha1.HTTPSelector{Paths: []string{"/a", "/b"}}}, {HTTP: &approvalv1alpha1.HTTPSelector{Paths: []string{"/a/b"}}}},
	}
	for name, pair := range different {
		assert.NotEqual(t, UseText(pair[0]), UseText(pair[1]), name)
	}
}

func TestTimeRangeText(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	there := metav1.NewTime(at.In(time.FixedZone("there", 3600)))
	here := metav1.NewTime(at)
	assert.Equal(t, TimeRangeText(&approvalv1alpha1.TimeRange{After: &here}), TimeRangeText(&approvalv1alpha1.TimeRange{After: &there}))
	assert.Equal(t, TimeRangeText(nil), TimeRangeText(&approvalv1alpha1.TimeRange{}))
	assert.Equal(t,
		TimeRangeText(&approvalv1alpha1.TimeRange{Duration: &metav1.Duration{Duration: time.Hour}}),
		TimeRangeText(&approvalv1alpha1.TimeRange{Duration: &metav1.Duration{Duration: 60 * time.Minute}}))
	assert.NotEqual(t, TimeRangeText(&approvalv1alpha1.TimeRange{After: &here}), TimeRangeText(&approvalv1alpha1.TimeRange{Before: &here}))
}

// FuzzEncode shows that the encoding is injective: two questions share one only if Sum promises to.
func FuzzEncode(f *testing.F) {
	f.Add("a", "b", "c", "d", "e", "f", uint8(0), "ab", "", "c", "d", "e", "f", uint8(1))
	f.Add("", "", "", "", "", "j", uint8(0), "", "", "", "", "j", "", uint8(2))
	f.Fuzz(func(t *testing.T, a1, a2, a3, a4, a5, a6 string, aShape uint8, b1, b2, b3, b4, b5, b6 string, bShape uint8) {
		a, b := shaped(a1, a2, a3, a4, a5, a6, aShape), shaped(b1, b2, b3, b4, b5, b6, bShape)
		same := bytes.Equal(encode(nil, &a), encode(nil, &b))
		require.Equal(t, same, Sum(&a) == Sum(&b))
		require.Equal(t, same, equal(a, b))
	})
}

// shaped spreads fields over the places of a question, another way for each shape.
func shaped(f1, f2, f3, f4, f5, f6 string, shape uint8) Input {
	in := Input{Object: Object{Namespace: f1, Name: f2, UID: f3}, Subject: Subject{Kind: User, Name: f4, UID: f5}, JTI: f6}
	if shape&1 != 0 {
		in.Object.Group, in.Object.Kind = f2, f1
		in.Subject.Kind, in.Subject.Namespace = ServiceAccount, f6
	}
	if shape&2 != 0 {
		in.Resource = &Object{Kind: f6, Name: f3, UID: f5}
	}
	if shape&4 != 0 {
		in.JTI = ""
	}
	return in
}

// equal is what Sum promises, written without an encoding.
func equal(a, b Input) bool {
	if a.Object != b.Object || a.Subject != b.Subject || (a.Resource == nil) != (b.Resource == nil) {
		return false
	}
	if a.Resource != nil {
		return *a.Resource == *b.Resource
	}
	return a.JTI == b.JTI
}

func BenchmarkSum(b *testing.B) {
	in := question()
	b.ReportAllocs()
	for b.Loop() {
		Sum(&in)
	}
}
