#!/usr/bin/env bash
# Measures the sizes of the design, as ratios of one run, and prints them against the goals. It brings up an
# environment of its own and always removes it. It exits 0 when a goal is missed (it is a report) and not 0 when
# something could not be measured. Arguments go to `bench run`, e.g. --rounds 3 (see `bench run --help`).
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
. test/stage.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/countersign-bench-XXXXXX")
cleanup() {
	trap - EXIT INT TERM
	"$root/bin/dev" down --dir "$work/env" >/dev/null || echo "the environment in $work/env could not be removed" >&2
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Go's build cache makes this a matter of a second, except for the first time.
build_peer() { (cd test/bench/peer && go build -ldflags '-s -w' -o "$root/bin/kube-rbac-proxy" .); }
build_bench() { go build -o "$work/bench" ./test/bench; }

stage "kube-rbac-proxy" build_peer
stage "benchmark" build_bench
stage "environment" bin/dev up --dir "$work/env"
stage "measurements" "$work/bench" run --root "$root" --dir "$work/env" --peer bin/kube-rbac-proxy "$@"
