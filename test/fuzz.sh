#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time (default 30s), two at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}

# The test binaries are built one after the other; a target itself keeps one core busy.
targets=$(grep -rlE '^func Fuzz' --include='*_test.go' apis cmd pkg test | sort | while read -r file; do
	sed -nE "s#^func (Fuzz[A-Za-z0-9_]*)\(.*#$(dirname "$file") \1#p" "$file"
done)

fuzz() {
	local out
	if out=$(go test "./$1" -run '^$' -fuzz "^$2\$" -fuzztime "$3" -fuzzminimizetime 10x -parallel 1 2>&1); then
		echo "== $2 ($1), $3: $(grep -oE 'execs: [0-9]+' <<<"$out" | tail -1)"
	elif grep -q 'context deadline exceeded' <<<"$out" && ! grep -q 'Failing input written' <<<"$out"; then
		# Go ends a worker in the middle of an input when the time is over, and calls that a failure.
		echo "== $2 ($1), $3: $(grep -oE 'execs: [0-9]+' <<<"$out" | tail -1), ended in the middle of an input"
	else
		echo "== $2 ($1): FAILED"
		echo "$out"
		return 1
	fi
}
export -f fuzz
xargs -P 2 -L 1 bash -c 'fuzz "$0" "$1" '"$time" <<<"$targets"
