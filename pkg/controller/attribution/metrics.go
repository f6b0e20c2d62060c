package attribution

import "github.com/prometheus/client_golang/prometheus"

var answers = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "countersign_attribution_checks_total",
	Help: "Changes of AttributionChecks, by the new state and its reason.",
}, []string{"state", "reason"})

// RegisterMetrics registers the package's metrics, once for a process.
func RegisterMetrics(registry prometheus.Registerer) error { return registry.Register(answers) }
