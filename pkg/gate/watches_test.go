package gate

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

// apiServer answers watches with a status; 0 is a connection that fails.
type apiServer int

func (a *apiServer) RoundTrip(*http.Request) (*http.Response, error) {
	if *a == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: int(*a), Body: io.NopCloser(strings.NewReader(""))}, nil
}

func TestS9_AWatchThatIsNotOpenClosesTheGate(t *testing.T) {
	const rules, requests = "/apis/a/v1/rules", "/apis/a/v1/requests"
	clock := clocktesting.NewFakeClock(epoch)
	watches, server := NewWatches(clock), apiServer(http.StatusOK)
	client := watches.Wrap(&server)
	send := func(path, query string) io.Closer {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api"+path+"?"+query, nil)
		require.NoError(t, err)
		res, err := client.RoundTrip(req)
		if err != nil {
			return io.NopCloser(nil)
		}
		return res.Body
	}
	check := func() error { return watches.Check(clock.Now(), 90*time.Second) }

	first, second := send(rules, "watch=true&resourceVersion=1"), send(requests, "watch=1")
	clock.Step(time.Hour)
	require.NoError(t, check(), "both are open")

	// The right to watch one of them is taken away, and the connection ends.
	server = http.StatusForbidden
	require.NoError(t, first.Close())
	clock.Step(time.Minute)
	require.NoError(t, first.Close(), "a second close says nothing new")
	require.NoError(t, send(rules, "watch=true&resourceVersion=7").Close())
	require.NoError(t, check(), "it may be a moment")
	clock.Step(31 * time.Second)
	require.ErrorContains(t, check(), "rules could not be watched for 1m31s")

	// The other one breaks too, and the first is mended.
	server = 0
	require.NoError(t, second.Close())
	_ = send(requests, "watch=true")
	server = http.StatusOK
	_ = send(rules, "watch=true&resourceVersion=7")
	require.NoError(t, check())
	clock.Step(2 * time.Minute)
	require.ErrorContains(t, check(), "requests could not be watched")

	server = http.StatusNotFound
	_ = send(requests, "watch=true")
	require.NoError(t, check(), "it was uninstalled")

	server = http.StatusForbidden
	_ = send(rules, "limit=500")
	_ = send(requests, "watch=false")
	clock.Step(time.Hour)
	assert.NoError(t, check(), "what is no watch does not count")
}
