package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/AlaudaDevops/countersign/pkg/audit"
)

// tolerance is how far the creation time of an object, which is in whole seconds, may lie from the request that made an
// object of its name.
const tolerance = 2 * time.Second

// objectName is an object by name.
type objectName struct {
	resource        schema.GroupResource
	namespace, name string
}

// finding is who made an object. sure tells that the log held the UID; torn that others made an object of this name within
// the tolerance.
type finding struct {
	user       string
	sure, torn bool
}

// evidence looks in audit logs for the creation of objects. Its size is that of the objects, not of the logs.
type evidence struct {
	wanted    []candidate
	found     []finding
	byUID     map[types.UID]int
	byName    map[objectName]int
	resources map[string]bool
}

func newEvidence() *evidence {
	return &evidence{byUID: map[types.UID]int{}, byName: map[objectName]int{}, resources: map[string]bool{}}
}

// want looks for an object too.
func (e *evidence) want(c candidate) {
	at := len(e.wanted)
	e.wanted, e.found = append(e.wanted, c), append(e.found, finding{})
	e.byUID[c.uid] = at
	e.byName[objectName{c.kind.Resource.GroupResource(), c.namespace, c.name}] = at
	e.resources[c.kind.Resource.Resource] = true
}

// made is what an event says of an object that it made.
type made struct {
	objectName
	uid      types.UID
	by       string
	from, to time.Time
}

// take learns from an event.
func (e *evidence) take(event *auditv1.Event) {
	if !creates(event) || !e.resources[event.ObjectRef.Resource] {
		return
	}
	m := madeBy(event)
	if m.by == "" {
		return
	}
	if m.uid != "" {
		if at, ok := e.byUID[m.uid]; ok {
			e.sure(at, m.by)
		}
		return
	}
	if at, ok := e.byName[m.objectName]; ok && m.at(e.wanted[at].created) {
		e.likely(at, m.by)
	}
}

// sure takes the word of an event that holds the UID, which is given once.
func (e *evidence) sure(at int, by string) {
	if found := &e.found[at]; !found.sure {
		*found = finding{user: by, sure: true}
	}
}

// likely takes an event that agrees in name and time, unless another one does too.
func (e *evidence) likely(at int, by string) {
	switch found := &e.found[at]; {
	case found.sure:
	case found.user == "":
		found.user = by
	case found.user != by:
		found.torn = true
	}
}

func (m *made) at(created time.Time) bool {
	return !created.Before(m.from.Add(-tolerance)) && !created.After(m.to.Add(tolerance))
}

// creates tells whether the event is of a request that made an object. An apply (PATCH) and an update may make one too; a
// dry run answers alike, and makes none.
func creates(event *auditv1.Event) bool {
	if event.Stage != auditv1.StageResponseComplete || event.ResponseStatus == nil || event.ResponseStatus.Code != 201 ||
		event.ObjectRef == nil || event.ObjectRef.Subresource != "" {
		return false
	}
	return slices.Contains([]string{"create", "patch", "update"}, event.Verb) && !isDryRun(event.RequestURI)
}

// isDryRun takes what cannot be read for a dry run, which proves nothing.
func isDryRun(uri string) bool {
	_, query, _ := strings.Cut(uri, "?")
	values, err := url.ParseQuery(query)
	return err != nil || len(values["dryRun"]) > 0
}

// madeBy reads an event. The UID of objectRef is what the client sent, and means nothing; that of the response is the
// object's.
func madeBy(event *auditv1.Event) made {
	ref := event.ObjectRef
	m := made{
		objectName: objectName{schema.GroupResource{Group: ref.APIGroup, Resource: ref.Resource}, ref.Namespace, ref.Name},
		by:         creatorOf(event), from: event.RequestReceivedTimestamp.Time, to: event.StageTimestamp.Time,
	}
	if stored := storedMeta(event.ResponseObject); stored.UID != "" {
		m.uid, m.namespace, m.name = stored.UID, stored.Namespace, stored.Name
	}
	return m
}

// creatorOf is the user as the records have it: the impersonated one if there is one, nobody if he was not authenticated.
func creatorOf(event *auditv1.Event) string {
	who := &event.User
	if event.ImpersonatedUser != nil {
		who = event.ImpersonatedUser
	}
	if slices.Contains(who.Groups, user.AllUnauthenticated) || badUser(who.Username) != "" {
		return ""
	}
	return who.Username
}

type objectMeta struct {
	UID       types.UID `json:"uid"`
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
}

// storedMeta is empty if the log does not hold the object.
func storedMeta(object *runtime.Unknown) objectMeta {
	var stored struct {
		Metadata objectMeta `json:"metadata"`
	}
	if object == nil || json.Unmarshal(object.Raw, &stored) != nil {
		return objectMeta{}
	}
	return stored.Metadata
}

// readLogs reads the logs, whatever their size, one event at a time.
func (m *migrator) readLogs(ctx context.Context, e *evidence) error {
	events := 0
	for _, path := range m.o.auditLogs {
		err := m.readLog(path, func(event *auditv1.Event) error {
			if events++; events%256 == 0 {
				m.progress.note("reading %s: %d events", path, events)
			}
			e.take(event)
			return ctx.Err()
		})
		var unreadable *audit.Unreadable
		switch {
		case errors.As(err, &unreadable):
			m.progress.tell("warning: %s", show(path+": "+unreadable.Error()+"; what these lines say is missing"))
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fail(ExitError, "%s", sentence(err))
		}
	}
	return nil
}

func (m *migrator) readLog(path string, each func(*auditv1.Event) error) error {
	if path == "-" {
		return audit.Read(m.p.streams.In, each)
	}
	err := audit.ReadFile(path, each)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		m.progress.tell("warning: %s", show(path+" ends in the middle: what it held after that is missing"))
		return nil
	}
	return err
}
