package chain

import (
	"encoding/json"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
)

// Deed is what an event did to its object.
type Deed string

// Deeds.
const (
	Created Deed = "created"
	Changed Deed = "changed"
	Deleted Deed = "deleted"
	// told is a write of a status: it says what the object is, and is nobody's deed worth a link.
	told Deed = "told"
)

// Event is what is kept of an event of the audit log.
type Event struct {
	Deed                       Deed
	Group, Resource, Namespace string
	// Name is empty where the client left it to the server (generateName) and the log holds no bodies.
	Name string
	// UID is empty where the log does not tell. At level Metadata that is the rule: the log then repeats the UID that the
	// client sent, which the API server has compared for updates, and for nothing else.
	UID      types.UID
	User, As string
	Received time.Time
	At       time.Time
	// Object is the object as the answer has it, at level RequestResponse.
	Object *Object
	// Request and Answer are the whole object if it is one of these kinds.
	Request *approvalv1alpha1.ResourceCheckRequest
	Answer  *approvalv1alpha1.ApprovalResponse
}

// Reduce keeps what matters of an event; nil if the event has changed nothing.
func Reduce(e *auditv1.Event) *Event {
	if e.Stage != auditv1.StageResponseComplete || e.ObjectRef == nil || !succeeded(e) || dryRun(e.RequestURI) {
		return nil
	}
	deed := deedOf(e)
	if deed == "" {
		return nil
	}
	ref := e.ObjectRef
	reduced := &Event{
		Deed: deed, Group: ref.APIGroup, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID,
		User: e.User.Username, Received: e.RequestReceivedTimestamp.Time, At: e.StageTimestamp.Time,
	}
	if deed == Created {
		reduced.UID = "" // the log repeats what the client sent there, and the server then chose another
	}
	if e.ImpersonatedUser != nil {
		reduced.As = e.ImpersonatedUser.Username
	}
	reduced.readAnswer(e.ResponseObject)
	return reduced
}

// HTTP status codes (RFC 9110): a success, that it created something, and the first beyond successes.
const (
	codeOK       = 200
	codeCreated  = 201
	codeMultiple = 300
)

func succeeded(e *auditv1.Event) bool {
	return e.ResponseStatus != nil && e.ResponseStatus.Code >= codeOK && e.ResponseStatus.Code < codeMultiple
}

func dryRun(uri string) bool {
	u, err := url.Parse(uri)
	return err != nil || u.Query().Get("dryRun") != ""
}

func deedOf(e *auditv1.Event) Deed {
	ours := e.ObjectRef.APIGroup == approvalv1alpha1.GroupVersion.Group
	switch e.ObjectRef.Subresource {
	case "":
	case "eviction":
		return Deleted
	case "status":
		if ours && e.ResponseObject != nil {
			return told
		}
		return ""
	default:
		return ""
	}
	switch e.Verb {
	case "create":
		return Created
	case "update", "patch":
		if e.ResponseStatus.Code == codeCreated { // a server-side apply, or an update of what was not there
			return Created
		}
		return Changed
	case "delete":
		return Deleted
	}
	return ""
}

// readAnswer takes identity and content from the body of the answer, where the log has it.
func (e *Event) readAnswer(body *runtime.Unknown) {
	if body == nil || len(body.Raw) == 0 {
		return
	}
	object := Read(body.Raw)
	if object == nil {
		e.readStatus(body.Raw)
		return
	}
	if object.UID == "" || e.Deed == Deleted && object.Kind == "Eviction" {
		return
	}
	object.Resource = e.Resource
	e.UID, e.Name, e.Object = object.UID, object.Name, object
	if e.Group != approvalv1alpha1.GroupVersion.Group {
		return
	}
	switch object.Kind {
	case kindRequest:
		e.Request = decode[approvalv1alpha1.ResourceCheckRequest](body.Raw)
	case kindAnswer:
		e.Answer = decode[approvalv1alpha1.ApprovalResponse](body.Raw)
	}
}

// readStatus takes the UID from the answer to a deletion.
func (e *Event) readStatus(raw []byte) {
	status := decode[metav1.Status](raw)
	if e.Deed == Deleted && status != nil && status.Details != nil && status.Details.UID != "" {
		e.UID = status.Details.UID
	}
}

func decode[T any](raw []byte) *T {
	value := new(T)
	if json.Unmarshal(raw, value) != nil {
		return nil
	}
	return value
}

func (e *Event) sighting(match Match) Sighting {
	return Sighting{User: e.User, As: e.As, At: e.At, Match: match}
}

// brackets tells whether an object with this creation time can have been made by the event: the API server takes the
// time while it handles the request, and cuts it to the second.
func (e *Event) brackets(created time.Time) bool {
	return !created.Before(e.Received.Truncate(time.Second)) && !created.After(e.At)
}

// Kinds of the approval group that are read as a whole.
const (
	kindRequest = "ResourceCheckRequest"
	kindAnswer  = "ApprovalResponse"
	kindRule    = "ResourceCheckRule"
)
