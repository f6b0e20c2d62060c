package guarded

import "github.com/prometheus/client_golang/prometheus"

// Values of the label change of countersign_epoch_changes_total.
const (
	changeRaised    = "raised"
	changeWithdrawn = "withdrawn"
)

// epochChanges counts how often records made earlier stopped being believed.
var epochChanges = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "countersign_epoch_changes_total",
	Help: "Changes of the moment from which creator records are believed, by raised or withdrawn.",
}, []string{"change"})

// RegisterMetrics registers the package's metrics and one that tells whether the Watcher sees the policies in
// force, once for a process.
func RegisterMetrics(registry prometheus.Registerer, watcher *Watcher) error {
	if err := registry.Register(epochChanges); err != nil {
		return err
	}
	return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "countersign_guarded",
		Help: "1 while the admission policies of this release are in force, otherwise 0.",
	}, func() float64 {
		if ok, _ := watcher.Guarded(); ok {
			return 1
		}
		return 0
	}))
}
