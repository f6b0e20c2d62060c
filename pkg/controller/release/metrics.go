package release

import "github.com/prometheus/client_golang/prometheus"

var (
	transitions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "countersign_releases_total", Help: "Transitions of Releases, by condition and the reason that it came to.",
	}, []string{"condition", "reason"})
	// validationSeconds reaches from an automatic check to people who answer after a weekend.
	validationSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "countersign_release_validation_seconds", Help: "Seconds from a Release to the end of its validation, if it was valid.",
		Buckets: []float64{0.5, 1, 2, 5, 15, 60, 300, 3600, 4 * 3600, 24 * 3600, 72 * 3600, 168 * 3600},
	})
)

// RegisterMetrics registers the package's metrics, once for a process.
func RegisterMetrics(registry prometheus.Registerer) error {
	if err := registry.Register(transitions); err != nil {
		return err
	}
	return registry.Register(validationSeconds)
}
