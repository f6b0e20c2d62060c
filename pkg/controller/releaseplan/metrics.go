package releaseplan

import "github.com/prometheus/client_golang/prometheus"

var transitions = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "countersign_release_plans_total", Help: "Transitions of ReleasePlans, by condition and the reason that it came to.",
}, []string{"condition", "reason"})

// RegisterMetrics registers the package's metrics, once for a process.
func RegisterMetrics(registry prometheus.Registerer) error { return registry.Register(transitions) }
