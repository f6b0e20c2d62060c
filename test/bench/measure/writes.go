package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/test/bench/world"
)

// afterGrant is how long writes are still counted as those of a grant after it was seen, so that late ones are not
// missed.
const afterGrant = 2 * time.Second

// maxAuditLine bounds one line of the audit log; at level Metadata they are far shorter.
const maxAuditLine = 1 << 20

// Writes are the successful API writes from a request to its grant.
type Writes struct {
	// People's are the request itself and the answer, Components' those of Countersign's own programs.
	People, Components int
	// Events are the Event objects among neither of both: they are for people to read and nothing waits for them.
	Events int
	// Lines names every write that was counted, in order.
	Lines []string
}

// Total is what the design's goal speaks of.
func (w Writes) Total() int { return w.People + w.Components }

// GrantWrites obtains one grant with one human approval while nothing else happens, and counts in the API server's own
// audit log what was written for it.
func GrantWrites(ctx context.Context, w *world.World, connector string) (Writes, error) {
	_, jti, err := w.Mint()
	if err != nil {
		return Writes{}, err
	}
	from, err := size(w.AuditLog())
	if err != nil {
		return Writes{}, err
	}
	if err := w.Obtain(ctx, connector, world.ForToken(jti)); err != nil {
		return Writes{}, err
	}
	select {
	case <-ctx.Done():
		return Writes{}, ctx.Err()
	case <-time.After(afterGrant):
	}
	file, err := os.Open(w.AuditLog())
	if err != nil {
		return Writes{}, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return Writes{}, err
	}
	return count(file)
}

func size(file string) (int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, fmt.Errorf("the API server keeps no audit log: %w", err)
	}
	return info.Size(), nil
}

const (
	componentPrefix = "system:serviceaccount:countersign-system:"
	personSuffix    = "@example.com"
)

var writing = []string{"create", "update", "patch", "delete", "deletecollection"}

// notObjects are groups whose creates store nothing, or that say only that a program lives.
var notObjects = []string{"authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io"}

func count(log io.Reader) (Writes, error) {
	var writes Writes
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxAuditLine)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return writes, fmt.Errorf("the audit log cannot be read: %w", err)
		}
		if isWrite(&event) {
			writes.add(&event)
		}
	}
	return writes, lines.Err()
}

func isWrite(e *auditv1.Event) bool {
	return e.Stage == auditv1.StageResponseComplete && slices.Contains(writing, e.Verb) &&
		e.ObjectRef != nil && !slices.Contains(notObjects, e.ObjectRef.APIGroup) &&
		e.ResponseStatus != nil && e.ResponseStatus.Code < 300 &&
		!strings.Contains(e.RequestURI, "dryRun=")
}

func (w *Writes) add(e *auditv1.Event) {
	component := strings.HasPrefix(e.User.Username, componentPrefix)
	switch {
	case component && isEvent(e):
		w.Events++
		return
	case component:
		w.Components++
	case strings.HasSuffix(e.User.Username, personSuffix) && e.ObjectRef.APIGroup == approvalv1alpha1.GroupVersion.Group:
		w.People++
	default:
		return
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	w.Lines = append(w.Lines, e.Verb+" "+resource)
}

func isEvent(e *auditv1.Event) bool { return e.ObjectRef.Resource == "events" }
