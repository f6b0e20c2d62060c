#!/usr/bin/env bash
# Runs every test. Integration and end-to-end tests use the binaries in bin/ (make cluster build).
# TESTFLAGS adds flags of go test, e.g. TESTFLAGS='-run TestS5'.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/stage.sh

# Test binaries with a control plane of their own: not too many at once.
planes='/test/(integration|e2e|env)|/pkg/token/parity'
unit=$(go list ./... | grep -vE "$planes")
integration=$(go list ./... | grep -E "$planes" | grep -v '/test/e2e' || true)

# shellcheck disable=SC2086
stage unit go test -race ${TESTFLAGS:-} $unit
# Go does not see that a binary in bin/ has changed, so results of tests that use them are never taken from its cache.
# shellcheck disable=SC2086
stage integration go test -race -count=1 -p 2 -timeout 20m ${TESTFLAGS:-} $integration
# shellcheck disable=SC2086
stage end-to-end go test -count=1 -p 1 -timeout 20m ${TESTFLAGS:-} ./test/e2e/...
