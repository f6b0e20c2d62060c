#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time (default 30s), one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
grep -rlE '^func Fuzz' --include='*_test.go' pkg apis cmd test 2>/dev/null | sort | while read -r file; do
	for target in $(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$file"); do
		echo "== $target ($(dirname "$file")), $time"
		go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x
	done
done
