// Package announce is what controllers share when they tell people of something in Events.
package announce

import (
	"context"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxNote is what an Event takes, in bytes.
const maxNote = 1024

// Note cuts a message for an Event, never inside a rune.
func Note(message string) string {
	if len(message) <= maxNote {
		return message
	}
	return strings.ToValidUTF8(message[:maxNote], "")
}

// Told remembers what was said about objects whose status is another product's, so that it is said once. The zero value is
// ready, and it is safe for concurrent use.
type Told struct {
	mu      sync.Mutex
	reasons map[types.UID]string
}

// Say tells whether this is news about the object, and remembers it while the reader, which must be the cache that tells of
// deletions, has the object: what is gone by now was forgotten already, and nothing would forget it again.
func (t *Told) Say(ctx context.Context, reader client.Reader, object client.Object, reason string) bool {
	if !t.remember(object.GetUID(), reason) {
		return false
	}
	now := object.DeepCopyObject().(client.Object)
	err := reader.Get(ctx, client.ObjectKeyFromObject(object), now)
	if apierrors.IsNotFound(err) || err == nil && now.GetUID() != object.GetUID() {
		t.Forget(object.GetUID())
	}
	return true
}

func (t *Told) remember(uid types.UID, reason string) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reasons == nil {
		t.reasons = map[types.UID]string{}
	}
	news = t.reasons[uid] != reason
	t.reasons[uid] = reason
	return news
}

// Last is what was said last; empty if nothing was.
func (t *Told) Last(uid types.UID) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reasons[uid]
}

// Forget is to be called when the object is deleted, or came to its end.
func (t *Told) Forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.reasons, uid)
}
