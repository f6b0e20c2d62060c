// Command controller runs Countersign's webhooks and controllers.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/AlaudaDevops/countersign/cmd/controller/app"
)

func main() {
	if err := app.NewCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}
