// Package policies holds the admission policies of this release, as installed from the YAML beside it, and the webhook
// configurations that stand in for some of them.
//
// The files state every field that the API server would default, so a live object's spec equals the file's.
package policies

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml creator-webhook/*.yaml
var files embed.FS

// Where the policies are, and what Options.CreatorWebhook has instead of some.
const (
	ordinary = "*.yaml"
	fallback = "creator-webhook/*.yaml"
)

// Kinds of the objects of a Set.
const (
	KindMutatingPolicy    = "MutatingAdmissionPolicy"
	KindMutatingBinding   = "MutatingAdmissionPolicyBinding"
	KindValidatingPolicy  = "ValidatingAdmissionPolicy"
	KindValidatingBinding = "ValidatingAdmissionPolicyBinding"
	KindMutatingWebhook   = "MutatingWebhookConfiguration"
	KindValidatingWebhook = "ValidatingWebhookConfiguration"
)

// CreatorRecord is the name of the policies and bindings that record creators, and of the webhook configurations that
// do so instead.
const CreatorRecord = "countersign-creator-record"

// Key names one policy or binding. Policies and their bindings share names, so the kind is part of it.
type Key struct{ Kind, Name string }

// String is <kind>/<name>.
func (k Key) String() string { return k.Kind + "/" + k.Name }

// Set is the policies and bindings of one release: pointers to objects of admissionregistration.k8s.io/v1, by
// key. It is shared and must not be changed.
type Set map[Key]metav1.Object

// Current returns the policies and bindings of this release, all of them.
var Current = sync.OnceValue(func() Set { return embedded(ordinary) })

// webhooks returns the webhook configurations that stand in for policies.
var webhooks = sync.OnceValue(func() Set { return embedded(fallback) })

func embedded(pattern string) Set {
	set, err := parse(files, pattern)
	if err != nil {
		panic(fmt.Sprintf("the embedded admission policies are broken: %v", err)) // a test reads them all
	}
	return set
}

// Options say which parts of a release are installed in a cluster.
type Options struct {
	// Releases wants the policies for which the Release kinds must be this product's, and not another's of the same name:
	// that specs do not change, and who writes statuses. The policy of the record, who answers for a Release or a plan, is
	// wanted either way, because the record is ours on both.
	Releases bool
	// CreatorWebhook wants webhooks to write the creator record, and whatever else mutating policies write, because the
	// API server has none of those.
	CreatorWebhook bool
}

// Values of the flag --creator-record of every component.
const (
	CreatorRecordPolicy  = "policy"
	CreatorRecordWebhook = "webhook"
)

// CreatorWebhook reads the flag --creator-record into Options.CreatorWebhook.
func CreatorWebhook(flag string) (bool, error) {
	if flag != CreatorRecordPolicy && flag != CreatorRecordWebhook {
		return false, fmt.Errorf("--creator-record is %q, but must be %s or %s", flag, CreatorRecordPolicy, CreatorRecordWebhook)
	}
	return flag == CreatorRecordWebhook, nil
}

// onlyOurs are the names of the policies that only Options.Releases wants.
var onlyOurs = []string{"countersign-release-immutability", "countersign-release-status-guard"}

// Accepted returns the sets under which this release works with these options, its own first. An upgrade replaces
// components before policies, so the set of the release before belongs here too; this is the first release, so
// there is none.
func Accepted(options Options) []Set { return []Set{Current().with(options)} }

// with is the part of the set that the options want.
func (s Set) with(options Options) Set {
	wanted := maps.Clone(s)
	maps.DeleteFunc(wanted, func(key Key, _ metav1.Object) bool {
		return !options.Releases && slices.Contains(onlyOurs, key.Name) || options.CreatorWebhook && byWebhook(key)
	})
	if options.CreatorWebhook {
		maps.Copy(wanted, webhooks())
	}
	return wanted
}

// byWebhook tells that webhooks do what the policy does.
func byWebhook(key Key) bool {
	return key.Kind == KindMutatingPolicy || key.Kind == KindMutatingBinding || key.Name == CreatorRecord
}

// Equal says whether two objects of a Set are of one kind and have the same spec. Whom the API server trusts to be a
// webhook's server is left out.
func Equal(a, b metav1.Object) bool {
	specA, specB := spec(a), spec(b)
	return specA != nil && apiequality.Semantic.DeepEqual(specA, specB)
}

func spec(object metav1.Object) any {
	switch o := object.(type) {
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return &o.Spec
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		return &o.Spec
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return &o.Spec
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		return &o.Spec
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		return withoutCA(o.DeepCopy().Webhooks, func(w *admissionregistrationv1.MutatingWebhook) { w.ClientConfig.CABundle = nil })
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		return withoutCA(o.DeepCopy().Webhooks, func(w *admissionregistrationv1.ValidatingWebhook) { w.ClientConfig.CABundle = nil })
	default:
		return nil
	}
}

func withoutCA[W any](webhooks []W, drop func(*W)) []W {
	for i := range webhooks {
		drop(&webhooks[i])
	}
	return webhooks
}

func newObject(kind string) metav1.Object {
	switch kind {
	case KindMutatingPolicy:
		return &admissionregistrationv1.MutatingAdmissionPolicy{}
	case KindMutatingBinding:
		return &admissionregistrationv1.MutatingAdmissionPolicyBinding{}
	case KindValidatingPolicy:
		return &admissionregistrationv1.ValidatingAdmissionPolicy{}
	case KindValidatingBinding:
		return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	case KindMutatingWebhook:
		return &admissionregistrationv1.MutatingWebhookConfiguration{}
	case KindValidatingWebhook:
		return &admissionregistrationv1.ValidatingWebhookConfiguration{}
	default:
		return nil
	}
}

func parse(from fs.FS, pattern string) (Set, error) {
	names, err := fs.Glob(from, pattern)
	if err != nil {
		return nil, err
	}
	set := Set{}
	for _, name := range names {
		if path.Base(name) == "kustomization.yaml" {
			continue
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, err
		}
		if err := set.parseFile(content); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return set, nil
}

func (s Set) parseFile(content []byte) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.parseDocument(document); err != nil {
			return err
		}
	}
}

func (s Set) parseDocument(document []byte) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(document, &meta); err != nil {
		return err
	}
	object := newObject(meta.Kind)
	if object == nil || meta.APIVersion != admissionregistrationv1.SchemeGroupVersion.String() {
		return fmt.Errorf("%s %s is no policy or binding of %s", meta.APIVersion, meta.Kind, admissionregistrationv1.SchemeGroupVersion)
	}
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		return err
	}
	key := Key{meta.Kind, object.GetName()}
	if _, twice := s[key]; twice {
		return fmt.Errorf("%s is there twice", key)
	}
	s[key] = object
	return nil
}
