# Versions of everything that builds or checks this repository but is not imported by it.
# Tools run with `go run <module>@<version>`, so nothing is installed and nothing prebuilt is downloaded.

CONTROLLER_GEN_VERSION := v0.23.0
GOLANGCI_LINT_VERSION  := v2.15.0
GOVULNCHECK_VERSION    := v1.9.0

CONTROLLER_GEN := go run sigs.k8s.io/controller-tools/cmd/controller-gen@$(CONTROLLER_GEN_VERSION)
GOLANGCI_LINT  := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
GOVULNCHECK    := go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)

# The test cluster. test/cluster/go.mod and test/cluster/registry/go.mod decide what is built; these
# two are only what the binaries say of themselves (Tekton refuses a server without a version).
KUBERNETES_VERSION := v1.37.1
CRANE_VERSION      := v0.21.7
