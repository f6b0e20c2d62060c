package request

import (
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// grantBuckets reach from an automatic check to people who answer after a weekend, in seconds.
var grantBuckets = []float64{1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600, 168 * 3600}

type metrics struct {
	transitions    *prometheus.CounterVec
	grantSeconds   prometheus.Histogram
	checks         *prometheus.CounterVec
	cancelled      prometheus.Counter
	reasksDelayed  prometheus.Counter
	archived       *prometheus.CounterVec
	archiveErrors  prometheus.Counter
	archiveFailing prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_requests_total", Help: "Transitions of requests, by the reason that Ready came to.",
		}, []string{"reason"}),
		grantSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "countersign_request_grant_seconds", Help: "Seconds from a request to its first grant.", Buckets: grantBuckets,
		}),
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_checks_created_total", Help: "Checks that were made; again tells those that repeat a question.",
		}, []string{"again"}),
		cancelled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_checks_cancelled_total", Help: "Open checks that were closed because nothing rested on them.",
		}),
		reasksDelayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_reasks_delayed_total", Help: "How often a request had to wait for its turn to ask again.",
		}),
		archived: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_archive_lines_total", Help: "Lines of evidence that were written, by occasion.",
		}, []string{"occasion"}),
		archiveErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_archive_errors_total", Help: "Lines of evidence that the archive did not take.",
		}),
		archiveFailing: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "countersign_archive_failing", Help: "1 while the archive takes no evidence, so that nothing is deleted.",
		}),
	}
	for _, collector := range []prometheus.Collector{
		m.transitions, m.grantSeconds, m.checks, m.cancelled, m.reasksDelayed, m.archived, m.archiveErrors, m.archiveFailing,
	} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("a metric of requests cannot be registered: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) asked(again bool) { m.checks.WithLabelValues(strconv.FormatBool(again)).Inc() }
