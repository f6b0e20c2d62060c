package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "appstudio.redhat.com", Version: "v1alpha1"}

// Kinds of this package.
const (
	KindRelease              = "Release"
	KindReleasePlan          = "ReleasePlan"
	KindReleasePlanAdmission = "ReleasePlanAdmission"
	KindReleaseStrategy      = "ReleaseStrategy"
	KindReleaseServiceConfig = "ReleaseServiceConfig"
)

// Kinds as references are compared: by group and kind. The version only says how a reference was written.
var (
	GroupKindRelease              = GroupVersion.WithKind(KindRelease).GroupKind()
	GroupKindReleasePlan          = GroupVersion.WithKind(KindReleasePlan).GroupKind()
	GroupKindReleasePlanAdmission = GroupVersion.WithKind(KindReleasePlanAdmission).GroupKind()
)

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Release{}, &ReleaseList{},
		&ReleasePlan{}, &ReleasePlanList{},
		&ReleasePlanAdmission{}, &ReleasePlanAdmissionList{},
		&ReleaseStrategy{}, &ReleaseStrategyList{},
		&ReleaseServiceConfig{}, &ReleaseServiceConfigList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
