package directory

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// series are the metrics of one directory. None is labelled by a name.
type series struct {
	hit, merged, miss                  prometheus.Counter
	known, unknown, unavailable, stale prometheus.Counter
	duration                           prometheus.Observer
	breaker                            prometheus.Gauge
}

func newSeries(directory string, registerer prometheus.Registerer) *series {
	lookups := register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "countersign_directory_lookups_total",
		Help: "Look-ups of people: hit from memory, merged into another's question, or a miss that became a question; " +
			"each question ends as known, unknown, unavailable, or stale (unavailable, but an older yes still counts).",
	}, []string{"directory", "result"}))
	duration := register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "countersign_directory_duration_seconds",
		Help:    "How long the directory took for each try, up to its time-out.",
		Buckets: []float64{0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
	}, []string{"directory"}))
	open := register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "countersign_directory_breaker_open",
		Help: "1 while the directory failed so often that it is not asked.",
	}, []string{"directory"}))
	count := func(result string) prometheus.Counter { return lookups.WithLabelValues(directory, result) }
	return &series{
		hit: count("hit"), merged: count("merged"), miss: count("miss"),
		known: count("known"), unknown: count("unknown"), unavailable: count("unavailable"), stale: count("stale"),
		duration: duration.WithLabelValues(directory), breaker: open.WithLabelValues(directory),
	}
}

// register returns the collector that is registered already, if there is one.
func register[C prometheus.Collector](registerer prometheus.Registerer, c C) C {
	if registerer == nil {
		return c
	}
	err := registerer.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		return already.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // a metric of this name with other labels: a mistake in the program
	}
	return c
}
