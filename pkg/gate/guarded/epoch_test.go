package guarded

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

var (
	began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later = began.Add(time.Hour)
)

func TestEpochNext(t *testing.T) {
	established := epoch{began, record{"P/a": {UID: "1", Generation: 3}, "P/b": {UID: "2", Generation: 1}}}
	tests := map[string]struct {
		was       epoch
		live      record
		wantSince time.Time
	}{
		"first sight":                  {epoch{}, record{"P/a": {UID: "1", Generation: 3}}, later},
		"nothing changed":              {established, record{"P/a": {UID: "1", Generation: 3}, "P/b": {UID: "2", Generation: 1}}, began},
		"upgraded once":                {established, record{"P/a": {UID: "1", Generation: 4}, "P/b": {UID: "2", Generation: 1}}, began},
		"a policy was added":           {established, record{"P/a": {UID: "1", Generation: 3}, "P/b": {UID: "2", Generation: 1}, "P/c": {UID: "9", Generation: 1}}, began},
		"a policy was dropped":         {established, record{"P/a": {UID: "1", Generation: 3}}, began},
		"altered and put back":         {established, record{"P/a": {UID: "1", Generation: 5}, "P/b": {UID: "2", Generation: 1}}, later},
		"deleted and made again":       {established, record{"P/a": {UID: "7", Generation: 3}, "P/b": {UID: "2", Generation: 1}}, later},
		"restored from an older state": {established, record{"P/a": {UID: "1", Generation: 2}, "P/b": {UID: "2", Generation: 1}}, later},
		"another selection":            {established, record{"P/a": {UID: "1", Generation: 4, Selection: "wide"}, "P/b": {UID: "2", Generation: 1}}, later},
		"no policies recorded":         {epoch{since: began}, record{"P/a": {UID: "1", Generation: 3}}, later},
		"withdrawn":                    {epoch{policies: established.policies}, established.policies, later},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			next := tc.was.next(tc.live, later)
			assert.Equal(t, tc.wantSince, next.since)
			for key, now := range tc.live {
				assert.Equal(t, now, next.policies[key])
			}
			assert.True(t, next.covers(tc.live), "what was just recorded is believed")
			assert.True(t, next.equal(next.next(tc.live, later.Add(time.Hour))), "nothing more to write")
		})
	}
}

func TestEpochNeverGoesBack(t *testing.T) {
	ahead := epoch{later, record{"P/a": {UID: "1", Generation: 3}}}
	assert.Equal(t, later, ahead.next(record{"P/a": {UID: "2", Generation: 1}}, began).since)
}

func TestADroppedPolicyThatReturnsIsAGap(t *testing.T) {
	e := epoch{began, record{"P/a": {UID: "1", Generation: 1}, "P/b": {UID: "2", Generation: 1}}}
	without := e.next(record{"P/a": {UID: "1", Generation: 1}}, later)
	require.Equal(t, began, without.since)
	assert.Equal(t, later, without.next(record{"P/a": {UID: "1", Generation: 1}, "P/b": {UID: "3", Generation: 1}}, later).since)
}

func TestEpochIsReadAsItWasWritten(t *testing.T) {
	written := epoch{began, record{"P/a": {UID: "1", Generation: 3}}}
	data, err := written.data()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"since": "2026-03-01T12:00:00Z", "policies": `{"P/a":{"uid":"1","generation":3}}`}, data)
	assert.Equal(t, written, parseEpoch(&corev1.ConfigMap{Data: data}))
}

func TestAnEpochThatIsNotUnderstoodIsNone(t *testing.T) {
	for name, data := range map[string]map[string]string{
		"empty":       {},
		"no since":    {"policies": `{"P/a":{"uid":"1","generation":3}}`},
		"no time":     {"since": "yesterday", "policies": `{"P/a":{"uid":"1","generation":3}}`},
		"no policies": {"since": "2026-03-01T12:00:00Z"},
		"no JSON":     {"since": "2026-03-01T12:00:00Z", "policies": "{"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.False(t, parseEpoch(&corev1.ConfigMap{Data: data}).covers(record{"P/a": {UID: "1", Generation: 3}}))
		})
	}
	assert.False(t, parseEpoch(nil).covers(record{}))
}
