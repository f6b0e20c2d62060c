package origin

import "github.com/prometheus/client_golang/prometheus"

// unprovenHops counts climbs that ended at an owner that could not be proven: forged owners, or a controller that the
// table of origins does not know.
var unprovenHops = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "countersign_origin_unproven_hops_total",
	Help: "Climbs from a pod that stopped at an owner reference which no creator record proves.",
})

// RegisterMetrics registers the package's metrics, once for a process.
func RegisterMetrics(registry prometheus.Registerer) error { return registry.Register(unprovenHops) }
