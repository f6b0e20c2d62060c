package late

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

// mapper answers from a script: one error for each look-up, nil for a kind that is there.
type mapper struct {
	apimeta.RESTMapper
	answers []error
	looked  chan struct{}
}

func (m *mapper) RESTMapping(gk schema.GroupKind, _ ...string) (*apimeta.RESTMapping, error) {
	defer func() { m.looked <- struct{}{} }()
	answer := m.answers[0]
	m.answers = m.answers[1:]
	return nil, answer
}

func TestBeginsOnceEveryKindIsThere(t *testing.T) {
	kind := schema.GroupKind{Group: "example.com", Kind: "Thing"}
	missing := &apimeta.NoKindMatchError{GroupKind: kind}
	m := &mapper{answers: []error{nil, missing, errors.New("busy"), nil, nil}, looked: make(chan struct{}, 10)}
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	begun := 0
	s := &Start{Clock: clock, Mapper: m, Kinds: []schema.GroupKind{kind, kind}, Begin: func(context.Context) error {
		begun++
		return errors.New("begun")
	}}
	done := make(chan error)
	go func() { done <- s.Start(t.Context()) }()

	<-m.looked
	<-m.looked
	clock.Step(lookEvery)
	<-m.looked
	clock.Step(lookEvery)
	require.EqualError(t, <-done, "begun")
	assert.Equal(t, 1, begun)
	assert.Empty(t, m.answers)
}

func TestEndsWithItsContext(t *testing.T) {
	kind := schema.GroupKind{Group: "example.com", Kind: "Thing"}
	m := &mapper{answers: []error{&apimeta.NoKindMatchError{GroupKind: kind}}, looked: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	s := &Start{Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Mapper: m, Kinds: []schema.GroupKind{kind},
		Begin: func(context.Context) error { return errors.New("begun") }}
	done := make(chan error)
	go func() { done <- s.Start(ctx) }()
	<-m.looked
	cancel()
	assert.NoError(t, <-done)
}
