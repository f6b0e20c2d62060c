package approvalrequest

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	decided = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "countersign_approval_requests_decided_total",
		Help: "ApprovalRequests that left the state pending, or an approval that was revoked, by state and reason.",
	}, []string{"state", "reason"})
	waited = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "countersign_approval_request_wait_seconds",
		Help:    "Time from taking up an ApprovalRequest to its decision.",
		Buckets: []float64{10, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600},
	})
)

// RegisterMetrics registers the package's metrics, once for a process.
func RegisterMetrics(registry prometheus.Registerer) error {
	return errors.Join(registry.Register(decided), registry.Register(waited))
}
