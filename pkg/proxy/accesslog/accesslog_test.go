package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func full() *Entry {
	return &Entry{
		Time: time.Date(2026, 3, 1, 12, 0, 0, 1500, time.FixedZone("x", 3600)), ID: "id-1", Verdict: "allow", Reason: "AllChecksApproved",
		Namespace: "prod", Name: "prod-harbor", Subject: "system:serviceaccount:dev:builder", JTI: "j-1", PodUID: "p-1",
		Context:          &Object{Group: "tekton.dev", Kind: "PipelineRun", Namespace: "dev", Name: "run-1", UID: "u-1"},
		RequestNamespace: "dev", RequestName: "rcr-1",
		Rules:     []Rule{{Name: "push", UID: "r-1", Generation: 3}, {Name: "window", UID: "r-2", Generation: 1}},
		Operation: "Write", Method: "PUT", Path: "/v2/app/manifests/1", Status: 201, ContentDigest: "sha256:00",
		BytesIn: 7, BytesOut: 9, Duration: 1234567 * time.Nanosecond,
	}
}

func TestTheFormatIsStable(t *testing.T) {
	assert.Equal(t, `{"time":"2026-03-01T11:00:00.000001Z","id":"id-1","verdict":"allow","reason":"AllChecksApproved",`+
		`"connector":"prod/prod-harbor","subject":"system:serviceaccount:dev:builder","jti":"j-1","podUID":"p-1",`+
		`"context":{"group":"tekton.dev","kind":"PipelineRun","namespace":"dev","name":"run-1","uid":"u-1"},`+
		`"request":"dev/rcr-1","rules":[{"name":"push","uid":"r-1","generation":3},{"name":"window","uid":"r-2","generation":1}],`+
		`"operation":"Write","method":"PUT","path":"/v2/app/manifests/1","source":"","status":201,"contentDigest":"sha256:00",`+
		`"bytesIn":7,"bytesOut":9,"durationMs":1.234}`+"\n", string(full().Append(nil)))
	assert.Equal(t, `{"time":"0001-01-01T00:00:00.000000Z","id":"","verdict":"","reason":"","connector":"","subject":"","jti":"","podUID":"",`+
		`"context":null,"request":"","rules":[],"operation":"","method":"","path":"","source":"","status":0,"contentDigest":"",`+
		`"bytesIn":0,"bytesOut":0,"durationMs":0.000}`+"\n", string(new(Entry).Append(nil)))
}

func TestAppendDoesNotAllocate(t *testing.T) {
	e, b := full(), make([]byte, 0, 2048)
	assert.Zero(t, testing.AllocsPerRun(100, func() { b = e.Append(b[:0]) }))
}

func TestLongTextsAreCut(t *testing.T) {
	var got struct{ Method, Path string }
	line := (&Entry{Method: strings.Repeat("M", 100), Path: "/" + strings.Repeat("ä", 5000)}).Append(nil)
	require.NoError(t, json.Unmarshal(line, &got))
	assert.Len(t, got.Method, maxMethod)
	assert.Len(t, got.Path, maxPath-1, "not inside a rune")
}

func FuzzAppend(f *testing.F) {
	f.Add("system:serviceaccount:dev:builder")
	f.Add("\"\\\n\x1b\u202e\U0001f600\xff")
	f.Fuzz(func(t *testing.T, s string) {
		line := (&Entry{Subject: s}).Append(nil)
		var got struct{ Subject string }
		require.NoError(t, json.Unmarshal(line, &got))
		if utf8.ValidString(s) && len(s) <= maxText {
			assert.Equal(t, s, got.Subject)
		}
		assert.False(t, bytes.ContainsFunc(line[:len(line)-1], func(r rune) bool { return r < ' ' || r > '~' }), "printable ASCII only")
	})
}

// gate is a sink that hands over each batch only when it is asked for.
type gate struct {
	arrived chan []byte
	release chan error
}

func (g *gate) Write(b []byte) (int, error) {
	g.arrived <- bytes.Clone(b)
	return len(b), <-g.release
}

func newGate() *gate { return &gate{arrived: make(chan []byte), release: make(chan error)} }

func TestWriterBatchesWhatComesMeanwhile(t *testing.T) {
	sink := newGate()
	w := NewWriter(sink, 0, nil)
	require.NoError(t, w.Log(full()))
	assert.Equal(t, 1, bytes.Count(<-sink.arrived, []byte("\n")))
	for range 3 {
		require.NoError(t, w.Log(full()))
	}
	sink.release <- nil
	assert.Equal(t, 3, bytes.Count(<-sink.arrived, []byte("\n")))
	sink.release <- nil
	require.NoError(t, w.Close())
}

func TestWriterLosesNothingWhileTheSinkIsSlow(t *testing.T) {
	sink := newGate()
	w := NewWriter(sink, 1, nil)
	const requests = 50
	var all sync.WaitGroup
	for range requests {
		all.Go(func() { assert.NoError(t, w.Log(full())) })
	}
	lines := 0
	for lines < requests {
		batch := <-sink.arrived
		assert.LessOrEqual(t, bytes.Count(batch, []byte("\n")), 1, "no more than the limit waits")
		lines += bytes.Count(batch, []byte("\n"))
		sink.release <- nil
	}
	all.Wait()
	require.NoError(t, w.Close())
}

func TestWriterReportsLostLines(t *testing.T) {
	sink, lost := newGate(), make(chan int, 1)
	w := NewWriter(sink, 0, func(lines int, _ error) { lost <- lines })
	full := full()
	require.NoError(t, w.Log(full))
	<-sink.arrived
	sink.release <- errors.New("no space left")
	assert.Equal(t, 1, <-lost)
	assert.ErrorContains(t, w.Err(), "no space left")

	require.NoError(t, w.Log(full))
	<-sink.arrived
	sink.release <- nil
	require.NoError(t, w.Close())
	assert.NoError(t, w.Err(), "a later batch was written")
}

func TestWriterCloseWritesTheRest(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, 0, nil)
	for range 10 {
		require.NoError(t, w.Log(full()))
	}
	require.NoError(t, w.Close())
	assert.Equal(t, 10, strings.Count(out.String(), "\n"))
	assert.ErrorIs(t, w.Log(full()), ErrClosed)
}

func BenchmarkLog(b *testing.B) {
	w := NewWriter(io.Discard, 0, nil)
	e := full()
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Log(e); err != nil {
			b.Fatal(err)
		}
	}
	_ = w.Close()
}
