// Command peer is kube-rbac-proxy as its project ships it, built from its Go module: the measure that the
// benchmark holds Countersign's proxy against.
package main

import (
	"os"

	"github.com/brancz/kube-rbac-proxy/cmd/kube-rbac-proxy/app"
	"k8s.io/component-base/cli"
)

func main() { os.Exit(cli.Run(app.NewKubeRBACProxyCommand())) }
