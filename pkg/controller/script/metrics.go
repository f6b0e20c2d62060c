package script

import "github.com/prometheus/client_golang/prometheus"

var answers = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "countersign_script_checks_total",
	Help: "Changes of state of ScriptChecks, by the new state and its reason.",
}, []string{"state", "reason"})

// RegisterMetrics registers the package's metrics, once for a process.
func RegisterMetrics(registry prometheus.Registerer) error { return registry.Register(answers) }
