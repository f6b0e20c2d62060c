package origin

import (
	"strings"
	"time"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// Node is what this package keeps of an object. It is shared and must not be changed.
type Node struct {
	schema.GroupVersionKind
	Namespace, Name string
	UID             types.UID
	// CreatedBy and CreatedFor are the creator record as it stands: believe them only through Creator and by a climb.
	CreatedBy  string
	CreatedFor types.UID
	// Created has the API server's precision of a second.
	Created time.Time
	// Owner is the controller owner that the object names now; nil if it names none.
	Owner *Owner
	// Deleting tells that deletion has begun.
	Deleting bool
	// Finished tells that the run has ended by itself, and FinishedWhy in a word how.
	Finished    bool
	FinishedWhy string
	// ServiceAccounts are those that the run uses, its own first; never empty for pods and runs.
	ServiceAccounts []string
	// Pipeline names what the run executes: a pipeline, a task, or where to fetch it; empty if it is written inline.
	Pipeline string
	// Parameters of the run, with the values of secret-like names masked; bounded as the API's schema wants it.
	Parameters []approvalv1alpha1.Parameter

	key string
}

// Owner is the controller owner that an object names.
type Owner struct {
	schema.GroupVersionKind
	Name string
	UID  types.UID
}

// Creator is who created the object, and false unless that can be believed: since is the moment from which on the API
// server recorded creators without a gap, and zero means that it never did.
func (n *Node) Creator(since time.Time) (string, bool) {
	if since.IsZero() || !n.Created.After(since) || n.CreatedBy == "" {
		return "", false
	}
	return n.CreatedBy, true
}

// Reference names the object as requests and checks do.
func (n *Node) Reference() approvalv1alpha1.ObjectReference {
	return approvalv1alpha1.ObjectReference{
		APIVersion: n.GroupVersion().String(), Kind: n.Kind, Namespace: n.Namespace, Name: n.Name, UID: n.UID,
	}
}

// String is the kind and name, for people.
func (n *Node) String() string { return n.Kind + " " + n.Namespace + "/" + n.Name }

// Ended tells whether a run that is known by its UID has come to its end, and how; node is what has its name now, nil
// if nothing has.
func Ended(node *Node, want types.UID) (why string, ended bool) {
	switch {
	case node == nil:
		return "it is gone", true
	case node.UID != want:
		return "it is gone, and another object has its name", true
	case node.Deleting:
		return "it is being deleted", true
	case node.Finished:
		return "it has finished (" + node.FinishedWhy + ")", true
	}
	return "", false
}

// FromUnstructured keeps what climbs and approvers need. It takes any object and refuses none: what has an unexpected
// shape counts as absent.
func FromUnstructured(u *unstructured.Unstructured) *Node {
	n := &Node{
		GroupVersionKind: intern(u.GroupVersionKind()),
		Created:          u.GetCreationTimestamp().Time,
		Deleting:         u.GetDeletionTimestamp() != nil,
	}
	annotations := u.GetAnnotations()
	n.CreatedBy = unique.Make(annotations[approvalv1alpha1.AnnotationCreatedBy]).Value()
	n.identify(u, annotations[approvalv1alpha1.AnnotationCreatedFor])
	n.readRun(u.Object)
	return n
}

// identify keeps name, UIDs and owner in one allocation, because a consumer holds one node for every pod of a cluster.
func (n *Node) identify(u *unstructured.Unstructured, createdFor string) {
	namespace, name, uid := u.GetNamespace(), u.GetName(), string(u.GetUID())
	owner := metav1.GetControllerOfNoCopy(u)
	if owner == nil {
		owner = &metav1.OwnerReference{}
	}
	forOwner := createdFor == string(owner.UID)
	if forOwner {
		createdFor = ""
	}
	all := strings.Join([]string{namespace, "/", name, uid, owner.Name, string(owner.UID), createdFor}, "")
	take := func(length int) string {
		part := all[:length]
		all = all[length:]
		return part
	}
	n.key = take(len(namespace) + 1 + len(name))
	n.Namespace, n.Name = n.key[:len(namespace)], n.key[len(namespace)+1:]
	n.UID = types.UID(take(len(uid)))
	ownerName, ownerUID := take(len(owner.Name)), types.UID(take(len(owner.UID)))
	n.CreatedFor = types.UID(take(len(createdFor)))
	if owner.UID == "" {
		return
	}
	n.Owner = &Owner{
		GroupVersionKind: intern(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)), Name: ownerName, UID: ownerUID,
	}
	if forOwner {
		n.CreatedFor = ownerUID
	}
}

func intern(gvk schema.GroupVersionKind) schema.GroupVersionKind { return unique.Make(gvk).Value() }
