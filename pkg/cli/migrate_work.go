package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	approvalv1alpha1 "github.com/AlaudaDevops/countersign/apis/approval/v1alpha1"
	"github.com/AlaudaDevops/countersign/config/policies"
)

const (
	// patchTimeout bounds the work on one object, which an interruption does not cut short.
	patchTimeout = 30 * time.Second
	// conflictTries is how often an object is read again that changes while it is assigned.
	conflictTries = 8
	// failedInRow is how many objects in a row may fail, beyond those that are worked on at a time, before the work is given
	// up.
	failedInRow = 10
)

// migrator assigns creators.
type migrator struct {
	p         *program
	c         *cluster
	o         *migrateOptions
	namespace string
	kinds     map[string]*apimeta.RESTMapping
	todo      []assignment
	journal   *journal
	tally     tally
	limit     *rate.Limiter
	progress  *gauge

	// recorded are the kinds of which a dry run has shown that the cluster records creators.
	recorded sync.Map
	// failed counts objects in a row.
	failed atomic.Int64
}

func newMigrator(ctx context.Context, p *program, c *cluster, o *migrateOptions) (*migrator, error) {
	system := &corev1.Namespace{}
	if err := c.Get(ctx, keyOf("", metav1.NamespaceSystem), system); err != nil && !unreadable(err) {
		return nil, err
	}
	journal, err := openJournal(o.progress, string(system.UID), o.dryRun)
	if err != nil {
		return nil, err
	}
	return &migrator{
		p: p, c: c, o: o, kinds: map[string]*apimeta.RESTMapping{}, journal: journal, progress: newGauge(p),
		limit: rate.NewLimiter(rate.Limit(o.rate), max(1, min(o.concurrency, int(o.rate)))),
	}, nil
}

// work deals with the list. After an interruption nothing new is begun, and what is under way is finished and written
// down.
func (m *migrator) work(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer m.progress.run(&m.tally, len(m.todo))()

	todo := make(chan *assignment)
	var workers sync.WaitGroup
	for range min(m.o.concurrency, len(m.todo)) {
		workers.Go(func() {
			for a := range todo {
				if err := m.deal(ctx, a); err != nil {
					stop(err)
				}
			}
		})
	}
	for i := range m.todo {
		if ctx.Err() != nil {
			break
		}
		select {
		case todo <- &m.todo[i]:
		case <-ctx.Done():
		}
	}
	close(todo)
	workers.Wait()
	return context.Cause(ctx)
}

// deal assigns one creator and writes down what became of it. Its error ends the work.
func (m *migrator) deal(ctx context.Context, a *assignment) error {
	if err := m.limit.Wait(ctx); err != nil {
		return cause(ctx, err)
	}
	uninterrupted, cancel := context.WithTimeout(context.WithoutCancel(ctx), patchTimeout)
	defer cancel()
	result, why := m.assign(uninterrupted, a)
	m.tally.count(result, why)
	if m.o.dryRun && result == outcomeAssigned {
		m.progress.say(fmt.Sprintf("%s: %s", a.text(), showName(a.user)))
	}
	if result == outcomeGone && m.o.to != "" {
		// Somebody named it, so he is told; and it is not written down, because it may be there the next time.
		m.progress.tell("error: %s is not there: look at the name, and at -n", a.text())
	} else if err := m.journal.write(a, result); err != nil {
		return err
	}
	if result != outcomeFailed {
		m.failed.Store(0)
	} else if m.failed.Add(1) == int64(failedInRow+m.o.concurrency) {
		return fail(ExitError, "one object after the other fails, the last because: %s. Run the same command again when that is mended", show(why))
	}
	return nil
}

// cause is why the work ended, where the limiter only says that it will.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// assign tries until the object holds still. The UID and the version go with the patch, so that it never reaches another
// object of the name, or one that somebody has given a creator meanwhile.
func (m *migrator) assign(ctx context.Context, a *assignment) (outcome, string) {
	for range conflictTries {
		if a.resourceVersion == "" {
			if result, why := m.reread(ctx, a); result != outcomeNone {
				return result, why
			}
		}
		dry := m.o.dryRun || !m.isRecorded(a.kind)
		result, why := m.patch(ctx, a, dry)
		switch {
		case result == outcomeConflict:
			a.resourceVersion = ""
		case result == outcomeAssigned && dry && !m.o.dryRun:
			m.recorded.Store(a.kind.Resource, true)
			if result, why = m.patch(ctx, a, false); result != outcomeConflict {
				return result, why
			}
			a.resourceVersion = ""
		default:
			return result, why
		}
	}
	return outcomeFailed, "it changes faster than it can be assigned"
}

// isRecorded tells that a dry run of a patch to the kind came back as the record of a migration. Without that an
// assignment would look like the server's own word.
func (m *migrator) isRecorded(kind *apimeta.RESTMapping) bool {
	_, ok := m.recorded.Load(kind.Resource)
	return ok
}

// reread reads what is needed of the object as it is now. outcomeNone means that it still lacks a creator.
func (m *migrator) reread(ctx context.Context, a *assignment) (outcome, string) {
	now := metadataOf(a.kind)
	if err := m.c.Get(ctx, keyOf(a.namespace, a.name), now); err != nil {
		return outcomeOf(err)
	}
	if a.uid == "" {
		a.uid = now.UID
	}
	switch {
	case a.uid != now.UID:
		return outcomeGone, ""
	case now.Annotations[approvalv1alpha1.AnnotationCreatedBy] != "":
		return outcomeHad, ""
	}
	a.resourceVersion = now.ResourceVersion
	return outcomeNone, ""
}

func metadataOf(kind *apimeta.RESTMapping) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind.GroupVersionKind)
	return o
}

// patch assigns the creator, and believes only what the server then says of the object.
func (m *migrator) patch(ctx context.Context, a *assignment, dry bool) (outcome, string) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": a.uid, "resourceVersion": a.resourceVersion,
		"annotations": map[string]string{approvalv1alpha1.AnnotationCreatedBy: a.user},
	}})
	if err != nil {
		return outcomeFailed, err.Error()
	}
	options := []client.PatchOption{client.FieldOwner("countersign-migrate")}
	if dry {
		options = append(options, client.DryRunAll)
	}
	object := metadataOf(a.kind)
	object.Namespace, object.Name = a.namespace, a.name
	if err := m.c.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), options...); err != nil {
		return outcomeOf(err)
	}
	return m.read(a, object)
}

// read tells what the server made of a patch.
func (m *migrator) read(a *assignment, object *metav1.PartialObjectMetadata) (outcome, string) {
	by := object.Annotations[approvalv1alpha1.AnnotationCreatedBy]
	switch {
	case by == a.user && object.Annotations[approvalv1alpha1.AnnotationMigratedBy] != "":
		return outcomeAssigned, ""
	case by == a.user:
		return outcomeRefused, resourceText(a.kind) + " have no creator records in this cluster, so that an assignment would pass for one: " +
			"select the kind in the bindings of " + policies.CreatorRecord + " first"
	case by == "":
		return outcomeRefused, "the cluster takes no assigned creators: its policies are of an older release, or your verb migrate is gone"
	}
	return outcomeHad, ""
}

func outcomeOf(err error) (outcome, string) {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsNotFound(err):
		return outcomeGone, ""
	case apierrors.IsConflict(err):
		return outcomeConflict, ""
	case apimeta.IsNoMatchError(err):
		return outcomeGone, ""
	case errors.As(err, &status) && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err):
		return outcomeRefused, sentence(err)
	}
	return outcomeFailed, sentence(err)
}

// outcome is what became of an object.
type outcome int

const (
	outcomeNone outcome = iota
	outcomeConflict
	outcomeAssigned
	outcomeBefore
	outcomeHad
	outcomeNoEvidence
	outcomeGone
	outcomeRefused
	outcomeFailed
	outcomes
)

// final names the outcomes that another run need not look at again, as the journal has them.
var final = map[outcome]string{outcomeAssigned: "assigned", outcomeHad: "had", outcomeGone: "gone"}

// maxReasons is how many different reasons are kept of each outcome.
const maxReasons = 5

// tally counts outcomes.
type tally struct {
	mu      sync.Mutex
	counts  [outcomes]int
	reasons [outcomes][]reason
}

type reason struct {
	text  string
	count int
}

func (t *tally) count(o outcome, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[o]++
	if why == "" {
		return
	}
	for i := range t.reasons[o] {
		if t.reasons[o][i].text == why {
			t.reasons[o][i].count++
			return
		}
	}
	if len(t.reasons[o]) < maxReasons {
		t.reasons[o] = append(t.reasons[o], reason{why, 1})
	}
}

// all is how many outcomes were counted.
func (t *tally) all() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, count := range t.counts {
		n += count
	}
	return n
}

func (t *tally) of(o outcome) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[o]
}

// reasonsOf are the first reasons of an outcome, each with how often it was met.
func (t *tally) reasonsOf(o outcome) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := make([]string, 0, len(t.reasons[o]))
	for _, r := range t.reasons[o] {
		lines = append(lines, fmt.Sprintf("%d: %s", r.count, show(r.text)))
	}
	return lines
}
