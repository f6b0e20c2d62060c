package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/AlaudaDevops/countersign/test/env"
)

// nameRegistry is the base name of the registry's folder, after which its process, log and port are named.
const nameRegistry = "registry"

// probeTimeout bounds one look at a health endpoint.
const probeTimeout = 2 * time.Second

// endpoints are the host:ports that the registry and Countersign's own programs listen on.
type endpoints struct {
	webhook, controllerHealth, controllerMetrics string
	proxy, proxyHealth                           string
	registry                                     string
}

func newEndpoints(cluster *env.Cluster) (endpoints, error) {
	var e endpoints
	var errs []error
	for name, address := range map[string]*string{
		"webhook":            &e.webhook,
		"controller-health":  &e.controllerHealth,
		"controller-metrics": &e.controllerMetrics,
		"proxy":              &e.proxy,
		"proxy-health":       &e.proxyHealth,
		nameRegistry:         &e.registry,
	} {
		var err error
		*address, err = cluster.Address(name)
		errs = append(errs, err)
	}
	return e, errors.Join(errs...)
}

func (e endpoints) proxyURL() string    { return "https://" + e.proxy }
func (e endpoints) registryURL() string { return "https://" + e.registry }

// ready returns a probe that succeeds when the health endpoint at the address says so.
func ready(address string) func(context.Context) error {
	client := &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s%s", request.URL, response.Status, excerpt(response.Body))
		}
		return nil
	}
}
