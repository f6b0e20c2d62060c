// Command kubectl is the upstream kubectl, built from its Go module.
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	// Verbosity has to be known before the command exists: plugins and kuberc are read while it is built.
	if _, err := logs.GlogSetter(cmd.GetLogVerbosity(os.Args)); err != nil {
		util.CheckErr(err)
	}
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
