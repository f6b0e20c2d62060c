// Command proxy stands before tools and passes on only what is approved.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/AlaudaDevops/countersign/cmd/proxy/app"
)

func main() {
	if err := app.NewCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}
