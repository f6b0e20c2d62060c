package chain

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	releasev1alpha1 "github.com/AlaudaDevops/countersign/apis/release/v1alpha1"
)

// Object is what is kept of one object.
type Object struct {
	Group, Version, Kind string
	// Resource is the plural by which the audit log names the kind.
	Resource        string
	Namespace, Name string
	UID             types.UID
	Generation      int64
	// Created has the API server's precision of a second.
	Created time.Time
	// CreatedBy, CreatedFor, ChangedBy and MigratedBy are the creator record as it stands.
	CreatedBy  string
	CreatedFor types.UID
	ChangedBy  string
	MigratedBy string
	// Owner is the controller owner, else any; nil if the object names none.
	Owner *Owner
	// Controller tells that Owner is the controller owner.
	Controller bool
	// Request names the request that a check asks for.
	Request *approvalv1alpha1.RequestReference
	// State and Message are those of a check.
	State, Message string
}

// Owner is an object that another one names as its owner.
type Owner struct {
	Group, Version, Kind, Name string
	UID                        types.UID
	// Namespace is empty for the object's own.
	Namespace string
}

// GroupKind is the kind without its version.
func (o *Object) GroupKind() schema.GroupKind { return schema.GroupKind{Group: o.Group, Kind: o.Kind} }

// checkBody is what is read of a check beyond its metadata.
type checkBody struct {
	Spec struct {
		Request *struct {
			Ref approvalv1alpha1.RequestReference `json:"ref"`
		} `json:"request"`
	} `json:"spec"`
	Status struct {
		State   string `json:"state"`
		Message string `json:"message"`
	} `json:"status"`
}

// ObjectOf keeps what chains need of an object's metadata.
func ObjectOf(gvk schema.GroupVersionKind, meta metav1.Object) *Object {
	annotations := meta.GetAnnotations()
	o := &Object{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Resource: ResourceOf(gvk.Kind),
		Namespace: meta.GetNamespace(), Name: meta.GetName(), UID: meta.GetUID(), Generation: meta.GetGeneration(),
		Created:    meta.GetCreationTimestamp().Time,
		CreatedBy:  annotations[approvalv1alpha1.AnnotationCreatedBy],
		CreatedFor: types.UID(annotations[approvalv1alpha1.AnnotationCreatedFor]),
		ChangedBy:  annotations[approvalv1alpha1.AnnotationChangedBy],
	}
	if by, migrated := annotations[approvalv1alpha1.AnnotationMigratedBy]; migrated {
		o.MigratedBy = cmp.Or(by, approvalv1alpha1.UnknownUser)
	}
	if uid := meta.GetLabels()[approvalv1alpha1.LabelRequestUID]; uid != "" {
		o.Request = &approvalv1alpha1.RequestReference{UID: types.UID(uid)}
	}
	if o.Owner, o.Controller = ownerOf(meta.GetOwnerReferences()); o.Owner == nil {
		o.Owner = releaseOf(meta.GetLabels())
		o.Controller = o.Owner != nil
	}
	return o
}

// releaseOf is the Release that a run was made for. It is in another namespace, so no owner reference can name it.
func releaseOf(labels map[string]string) *Owner {
	uid, name := labels[releasev1alpha1.LabelReleaseUID], labels[releasev1alpha1.LabelReleaseName]
	if uid == "" || name == "" {
		return nil
	}
	return &Owner{
		Group: releasev1alpha1.GroupVersion.Group, Version: releasev1alpha1.GroupVersion.Version, Kind: "Release",
		Namespace: labels[releasev1alpha1.LabelReleaseNamespace], Name: name, UID: types.UID(uid),
	}
}

func ownerOf(references []metav1.OwnerReference) (owner *Owner, controller bool) {
	for i := range references {
		ref := &references[i]
		isController := ref.Controller != nil && *ref.Controller
		if owner != nil && !isController {
			continue
		}
		gv, _ := schema.ParseGroupVersion(ref.APIVersion) // what cannot be parsed has no group that anything has
		owner = &Owner{Group: gv.Group, Version: gv.Version, Kind: ref.Kind, Name: ref.Name, UID: ref.UID}
		if isController {
			return owner, true
		}
	}
	return owner, false
}

// Read keeps what chains need of an object in JSON; nil if it is none.
func Read(raw []byte) *Object {
	var body struct {
		metav1.PartialObjectMetadata `json:",inline"`
		checkBody                    `json:",inline"`
	}
	if json.Unmarshal(raw, &body.PartialObjectMetadata) != nil || body.Kind == "" || body.Kind == "Status" {
		return nil
	}
	o := ObjectOf(schema.FromAPIVersionAndKind(body.APIVersion, body.Kind), &body.PartialObjectMetadata)
	if o.Request != nil && json.Unmarshal(raw, &body.checkBody) == nil {
		o.readCheck(&body.checkBody)
	}
	return o
}

func (o *Object) readCheck(body *checkBody) {
	o.State, o.Message = body.Status.State, body.Status.Message
	if r := body.Spec.Request; r != nil && r.Ref.UID == o.Request.UID {
		o.Request = &r.Ref
	}
}

// ResourceOf is the usual plural of a kind, by which it is known to logs.
func ResourceOf(kind string) string {
	plural, _ := apimeta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return plural.Resource
}

// Reference is an object of which only a reference is known.
func Reference(ref approvalv1alpha1.ObjectReference) *Object {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	return &Object{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Resource: ResourceOf(gvk.Kind),
		Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID,
	}
}

// ours is an object of the approval group of which only the name is known.
func ours(kind, namespace, name string, uid types.UID) *Object {
	return Reference(approvalv1alpha1.ObjectReference{
		APIVersion: approvalv1alpha1.GroupVersion.String(), Kind: kind, Namespace: namespace, Name: name, UID: uid,
	})
}

// Is tells whether a word of the command line names the kind: its kind or plural, in any case.
func (o *Object) Is(word string) bool {
	word = strings.ToLower(word)
	return word == o.Resource || ResourceOf(word) == o.Resource || word == strings.ToLower(o.Kind)
}

// kindOf is the kind of a plural that usual chains consist of, for logs without bodies; empty for others.
func kindOf(resource string) string {
	for _, kind := range []string{
		"Pod", "Job", "CronJob", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "PipelineRun", "TaskRun", "CustomRun",
		"Release", "ReleasePlan", "ReleasePlanAdmission", "Connector", kindRequest, kindAnswer, kindRule, "ApprovalRequest",
	} {
		if ResourceOf(kind) == resource {
			return kind
		}
	}
	return ""
}
