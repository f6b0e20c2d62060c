package measure

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/AlaudaDevops/countersign/test/bench/load"
)

func line(user, verb, group, resource, subresource, uri, code string) string {
	return `{"stage":"ResponseComplete","verb":"` + verb + `","user":{"username":"` + user + `"},"requestURI":"` + uri +
		`","objectRef":{"apiGroup":"` + group + `","resource":"` + resource + `","subresource":"` + subresource +
		`"},"responseStatus":{"code":` + code + `}}`
}

func TestCountKeepsPeopleComponentsAndEventsApart(t *testing.T) {
	const group, controller = "approval.alaudadevops.io", componentPrefix + "countersign-controller"
	log := strings.Join([]string{
		line("developer@example.com", "create", group, "resourcecheckrequests", "", "/", "201"),
		line(controller, "create", group, "approvalrequests", "", "/?dryRun=All", "201"),
		line(controller, "create", group, "approvalrequests", "", "/", "201"),
		line(controller, "patch", group, "resourcecheckrequests", "status", "/", "200"),
		line(controller, "patch", group, "resourcecheckrequests", "status", "/", "409"),
		line(controller, "create", "events.k8s.io", "events", "", "/", "201"),
		line(controller, "update", "coordination.k8s.io", "leases", "", "/", "200"),
		line(controller, "create", "authorization.k8s.io", "subjectaccessreviews", "", "/", "201"),
		line(controller, "get", group, "resourcecheckrequests", "", "/", "200"),
		line("owner1@example.com", "create", group, "approvalresponses", "", "/", "201"),
		line("system:kube-scheduler", "create", "", "pods", "binding", "/", "201"),
	}, "\n")
	writes, err := count(strings.NewReader(log))
	require.NoError(t, err)
	assert.Equal(t, Writes{People: 2, Components: 2, Events: 1, Lines: []string{
		"create resourcecheckrequests", "create approvalrequests", "patch resourcecheckrequests/status", "create approvalresponses",
	}}, writes)
	assert.Equal(t, 4, writes.Total())
}

func TestTurnsBeginEachRoundWithAnother(t *testing.T) {
	var order []int
	rounds, err := Turns(t.Context(), io.Discard, []string{"a", "b", "c"}, 2, func(_ context.Context, at int) (Sample, error) {
		order = append(order, at)
		return Sample{PerSecond: float64(at)}, nil
	})
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1, 2, 1, 2, 0}, order)
	for _, round := range rounds {
		assert.Equal(t, Round{{PerSecond: 0}, {PerSecond: 1}, {PerSecond: 2}}, round)
	}
	_, err = Turns(t.Context(), io.Discard, []string{"a"}, 1, func(context.Context, int) (Sample, error) { return Sample{}, errors.New("why") })
	assert.ErrorContains(t, err, "a could not be measured: why")
}

func TestRatioIsTheMedianOfTheRoundsRatios(t *testing.T) {
	rounds := []Round{
		{{PerSecond: 90}, {PerSecond: 100}},
		{{PerSecond: 190}, {PerSecond: 200}},
		{{PerSecond: 50}, {PerSecond: 100}},
	}
	median, spread := Ratio(rounds, 0, 1, func(s Sample) float64 { return s.PerSecond })
	assert.Equal(t, 0.9, median)
	assert.Equal(t, "0.50 to 0.95 in 3 rounds", spread)
	assert.Equal(t, 90.0, Typical(rounds, 0, func(s Sample) float64 { return s.PerSecond }))
}

func TestPercentilesSortWhatTheyAreGiven(t *testing.T) {
	p50, p99 := Percentiles([]Opening{{Sent: 3}, {Sent: 1}, {Sent: 2}}, func(o Opening) time.Duration { return o.Sent })
	assert.Equal(t, time.Duration(2), p50)
	assert.Equal(t, time.Duration(3), p99)
}

func TestSampleTellsWhatOthersTook(t *testing.T) {
	spent := clocks{server: 2 * time.Second, tool: time.Second, machine: 8 * time.Second}
	sample := spent.sample(load.Result{Requests: 500, Sent: 1000, Elapsed: time.Second}, time.Second)
	assert.Equal(t, Sample{PerSecond: 500, CPU: 2 * time.Millisecond, All: 4 * time.Millisecond, Foreign: 0.5}, sample)
}
