// Package controller runs the whole controller in a test's process, as the shipped identity with the shipped rights. The
// API server reaches its webhooks through their Service.
package controller

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/AlaudaDevops/countersign/cmd/controller/app"
	"github.com/AlaudaDevops/countersign/test/env"
	"github.com/AlaudaDevops/countersign/test/env/hooks"
	"github.com/AlaudaDevops/countersign/test/env/port"
)

const (
	systemNamespace = "countersign-system"
	account         = "countersign-controller"
	tick            = 20 * time.Millisecond
)

// Start runs the controller until the process ends, and returns when it is ready. What it needs must have been applied:
// config/crd, config/rbac and, so that it can be ready, config/webhook. The options are those of an ordinary installation,
// on free ports of loopback and without a time to settle; configure may change them and use the directory for files.
func Start(ctx context.Context, c *env.Cluster, configure func(dir string, o *app.Options) error) (*app.Options, error) {
	o, err := options(c, configure)
	if err != nil {
		return nil, err
	}
	token, err := c.Token(ctx, systemNamespace, account, "", nil)
	if err != nil {
		return nil, err
	}
	go func() {
		if err := app.Run(context.WithoutCancel(ctx), c.Bearer(token), *o); err != nil {
			fmt.Fprintln(os.Stderr, "the controller ended:", err)
			os.Exit(1)
		}
	}()
	if err := c.Route(hooks.Service, address(o.WebhookPort)); err != nil {
		return nil, err
	}
	return o, wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		return answers(ctx, "http://"+o.HealthAddress+"/readyz"), nil
	})
}

func options(c *env.Cluster, configure func(dir string, o *app.Options) error) (*app.Options, error) {
	dir, err := os.MkdirTemp(c.StateDir(), "controller-")
	if err != nil {
		return nil, err
	}
	var ports [3]int
	for i := range ports {
		if ports[i], err = port.Reserve(); err != nil {
			return nil, err
		}
	}
	o := app.DefaultOptions()
	o.WebhookAddress, o.WebhookPort = "127.0.0.1", ports[0]
	o.HealthAddress, o.MetricsAddress = address(ports[1]), address(ports[2])
	o.Archive, o.EpochSettle = filepath.Join(dir, "archive.jsonl"), 0
	if err := configure(dir, &o); err != nil {
		return nil, err
	}
	return &o, o.Validate()
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}
