package main

import (
	"fmt"
	"path/filepath"
	"text/tabwriter"
)

// summary says what runs where, and what to try next.
func (e *environment) summary() error {
	table := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	row := func(name, url, health, metrics, log string) {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", name, url, health, metrics, log)
	}
	api := e.cluster.Admin().Host
	_, _ = fmt.Fprintln(table)
	row("WHAT", "URL", "HEALTH", "METRICS", "LOG")
	row("API server", api, "/readyz", "/metrics", e.relativeLog("kube-apiserver"))
	row("issuer", e.cluster.Issuer().URL(), "/healthz", "-", e.relativeLog("issuer"))
	row(nameRegistry, e.at.registryURL(), "-", "-", e.relativeLog(nameRegistry))
	row(nameController, "-", "http://"+e.at.controllerHealth+"/readyz", "http://"+e.at.controllerMetrics+"/metrics", e.relativeLog(nameController))
	row(nameProxy, e.at.proxyURL(), "http://"+e.at.proxyHealth+"/readyz", "http://"+e.at.proxyHealth+"/metrics", e.relativeLog(nameProxy))
	if err := table.Flush(); err != nil {
		return err
	}
	e.say("\nAccess log: %s. Audit log: %s. Requests that were deleted: %s.", e.relative(e.accessLog()), e.relative(e.log("audit")), e.relative(e.archive()))
	e.say("\nEverything lies in %s. Try next:\n  . %s\n  kubectl countersign request connector/prod-harbor -n prod --in team-a --reason \"try it\" --context developer",
		e.dir, quote(e.envFile()))
	return nil
}

func (e *environment) relativeLog(name string) string { return e.relative(e.log(name)) }

// relative shortens a path of this environment, for reading.
func (e *environment) relative(path string) string {
	if short, err := filepath.Rel(e.dir, path); err == nil {
		return short
	}
	return path
}
