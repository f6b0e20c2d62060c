package origin

import (
	"strings"
	"sync"
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
	// Migrated tells that CreatedBy was assigned later, by somebody's word. It stands beside the other flags, because one
	// word more would take a pod into the next size of allocation.
	Migrated bool
	// Deleting tells that deletion has begun.
	Deleting bool
	// Finished tells that the run has ended by itself, and FinishedWhy in a word how.
	Finished    bool
	FinishedWhy string
	// ServiceAccounts are those that the run uses, its own first; never empty for pods and runs that have pods.
	ServiceAccounts []string
	// Pipeline names what the run executes: a pipeline, a task, or where to fetch it; empty if it is written inline.
	Pipeline string
	// Parameters of the run, with the values of secret-like names masked; bounded as the API's schema wants it.
	Parameters []approvalv1alpha1.Parameter
	// Release is nil unless the object is a Release.
	Release *Release
}

// Owner is the controller owner that an object names, in the object's namespace.
type Owner struct {
	*schema.GroupVersionKind
	Name string
	UID  types.UID
}

// Creator is who created the object, and false unless that can be believed: since is the moment from which on the API
// server recorded creators without a gap, and zero means that it never did. A creator that was assigned later is never
// believed: the API server did not see it.
func (n *Node) Creator(since time.Time) (string, bool) {
	if since.IsZero() || !n.Created.After(since) || n.CreatedBy == "" || n.Migrated {
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
	n.Migrated = annotations[approvalv1alpha1.AnnotationMigratedBy] != ""
	n.identify(u, annotations[approvalv1alpha1.AnnotationCreatedFor])
	n.readRun(u)
	return n
}

// identify keeps name, UIDs and owner in one allocation, because a consumer holds one node for every pod of a cluster.
func (n *Node) identify(u *unstructured.Unstructured, createdFor string) {
	owner := metav1.GetControllerOfNoCopy(u)
	if owner == nil {
		owner = &metav1.OwnerReference{}
	}
	forOwner := createdFor == string(owner.UID)
	if forOwner {
		createdFor = ""
	}
	parts := cut(u.GetName(), string(u.GetUID()), owner.Name, string(owner.UID), createdFor)
	n.Namespace, n.Name, n.UID = unique.Make(u.GetNamespace()).Value(), parts[0], types.UID(parts[1])
	n.CreatedFor = types.UID(parts[4])
	if owner.UID == "" {
		return
	}
	n.Owner = &Owner{GroupVersionKind: internOwner(owner), Name: parts[2], UID: types.UID(parts[3])}
	if forOwner {
		n.CreatedFor = n.Owner.UID
	}
}

// cut copies five texts into one allocation and returns them from there.
func cut(texts ...string) (parts [5]string) {
	all := strings.Join(texts, "")
	for i, text := range texts {
		parts[i], all = all[:len(text)], all[len(text):]
	}
	return parts
}

// ownerKinds holds one copy of each kind of owner. Kinds are few: those of the cluster's APIs, and what people invent in
// owner references, so the copies are bounded.
var ownerKinds = struct {
	sync.Mutex
	known map[schema.GroupVersionKind]*schema.GroupVersionKind
}{known: map[schema.GroupVersionKind]*schema.GroupVersionKind{}}

const maxOwnerKinds = 1024

func internOwner(owner *metav1.OwnerReference) *schema.GroupVersionKind {
	gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	ownerKinds.Lock()
	defer ownerKinds.Unlock()
	if known, ok := ownerKinds.known[gvk]; ok {
		return known
	}
	if len(ownerKinds.known) < maxOwnerKinds {
		ownerKinds.known[gvk] = &gvk
	}
	return &gvk
}

func intern(gvk schema.GroupVersionKind) schema.GroupVersionKind { return unique.Make(gvk).Value() }
