package release

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

const (
	kindAttributionCheck = "AttributionCheck"
	// rulePrefix begins the name of the rule that every plan with Releases gets.
	rulePrefix = "attribution-"
	// maxName is what a name may have.
	maxName = 253
	// hashLength is how much of a hash makes a shortened name unique.
	hashLength = 10
)

var checkKind = approvalv1alpha1.GroupVersion.WithKind(kindAttributionCheck).GroupKind()

// ruleName is the name of the plan's attribution rule.
func ruleName(plan string) string {
	name := rulePrefix + plan
	if len(name) <= maxName {
		return name
	}
	return shortened(name, name, maxName)
}

// shortened cuts a name and ends it with a hash of what makes it unique.
func shortened(name, unique string, limit int) string {
	hash := shortHash(unique)
	name = strings.TrimRight(name[:min(len(name), limit-1-len(hash))], "-.")
	return name + "-" + hash
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// wantedRule is the rule by which every Release of the plan must be attributed to a person. The plan owns it.
func wantedRule(plan *releasev1alpha1.ReleasePlan) *approvalv1alpha1.ResourceCheckRule {
	return &approvalv1alpha1.ResourceCheckRule{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: plan.Namespace, Name: ruleName(plan.Name),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: releasev1alpha1.GroupVersion.String(), Kind: releasev1alpha1.KindReleasePlan, Name: plan.Name, UID: plan.UID,
			}},
		},
		Spec: approvalv1alpha1.ResourceCheckRuleSpec{
			ObjectRef: approvalv1alpha1.ObjectReference{
				APIVersion: releasev1alpha1.GroupVersion.String(), Kind: releasev1alpha1.KindReleasePlan, Namespace: plan.Namespace, Name: plan.Name,
			},
			CheckTemplate: approvalv1alpha1.CheckTemplate{
				APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: kindAttributionCheck,
				Spec: runtime.RawExtension{Raw: []byte(`{"requireHuman":true}`)},
			},
		},
	}
}

// asWanted tells whether a rule asks what wantedRule asks, of every use of the plan that is not a read, without an end of
// its own. What the server fills in does not matter.
func asWanted(rule *approvalv1alpha1.ResourceCheckRule, plan *releasev1alpha1.ReleasePlan) bool {
	want := wantedRule(plan)
	template := &rule.Spec.CheckTemplate
	return rule.Name == want.Name && guards(rule, plan.Name) && rule.Spec.When == nil && rule.Spec.Grant == nil && template.Metadata == nil &&
		schema.FromAPIVersionAndKind(template.APIVersion, template.Kind).GroupKind() == checkKind &&
		sameJSON(template.Spec.Raw, want.Spec.CheckTemplate.Spec.Raw)
}

// guards tells whether the rule is for the plan with this name in its namespace.
func guards(rule *approvalv1alpha1.ResourceCheckRule, plan string) bool {
	ref := &rule.Spec.ObjectRef
	return ref.Name == plan && ref.GroupKind() == releasev1alpha1.GroupKindReleasePlan
}

// ownedBy tells whether the rule goes when the plan goes, and not sooner: the rule of a plan that was deleted goes with that
// one, although another has taken its name.
func ownedBy(rule *approvalv1alpha1.ResourceCheckRule, plan *releasev1alpha1.ReleasePlan) bool {
	return slices.ContainsFunc(rule.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == plan.UID }) &&
		!slices.ContainsFunc(rule.OwnerReferences, func(owner metav1.OwnerReference) bool { return otherPlan(owner, plan.UID) })
}

// otherPlan tells whether an owner is a ReleasePlan that is gone: there is one with a name.
func otherPlan(owner metav1.OwnerReference, plan types.UID) bool {
	return owner.UID != plan && schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() == releasev1alpha1.GroupKindReleasePlan
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && equality.Semantic.DeepEqual(x, y)
}

// attributionRule is the plan's attribution rule as it should be; nil if it is not.
func (f *facts) attributionRule() *approvalv1alpha1.ResourceCheckRule {
	for i := range f.rules {
		if asWanted(&f.rules[i], f.plan) && ownedBy(&f.rules[i], f.plan) && f.rules[i].DeletionTimestamp == nil {
			return &f.rules[i]
		}
	}
	return nil
}
