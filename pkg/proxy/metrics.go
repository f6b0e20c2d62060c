package proxy

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are labelled by verdict and reason only: both are short lists of ours.
type metrics struct {
	requests *prometheus.CounterVec
	cuts     *prometheus.CounterVec
	seconds  prometheus.Histogram
	// counters keeps the counters that are in use, because looking one up by its labels costs more than counting.
	counters sync.Map // outcome to prometheus.Counter
}

type outcome struct{ verdict, reason string }

func newMetrics(registerer prometheus.Registerer, streams func() int, serving func() int64) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_proxy_requests_total", Help: "Requests to the proxy, by verdict and reason.",
		}, []string{"verdict", "reason"}),
		cuts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_proxy_streams_cut_total", Help: "Requests whose permission ended while they were served, by reason.",
		}, []string{"reason"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "countersign_proxy_request_duration_seconds", Help: "Time from the arrival of a request to the last byte of its answer, tools included.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 600},
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.requests, m.cuts, m.seconds,
			gauge("countersign_proxy_streams", "Requests that are being served for so long that they are decided about again.", func() float64 { return float64(streams()) }),
			gauge("countersign_proxy_requests_in_flight", "Requests that are being served.", func() float64 { return float64(serving()) }))
	}
	return m
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

func (m *metrics) observe(verdict, reason string, d time.Duration) {
	m.counter(outcome{verdict, reason}).Inc()
	m.seconds.Observe(d.Seconds())
}

func (m *metrics) counter(o outcome) prometheus.Counter {
	if counter, ok := m.counters.Load(o); ok {
		return counter.(prometheus.Counter)
	}
	counter, _ := m.counters.LoadOrStore(o, m.requests.WithLabelValues(o.verdict, o.reason))
	return counter.(prometheus.Counter)
}

func (m *metrics) cut(reason string) { m.cuts.WithLabelValues(reason).Inc() }
