package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

func lostLines() prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "countersign_proxy_access_log_lost_lines_total", Help: "Access log lines that could not be written.",
	})
	metrics.Registry.MustRegister(c)
	return c
}

func readingMismatch() prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "countersign_proxy_token_reading_mismatch", Help: "1 if the proxy read its own token otherwise than the API server at start.",
	})
	metrics.Registry.MustRegister(g)
	return g
}
