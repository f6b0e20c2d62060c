#!/usr/bin/env bash
# Proves that what is generated is what the sources say: everything is made anew in a copy and compared.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

unformatted=$(gofmt -l apis cmd config pkg test)
if [ -n "$unformatted" ]; then
	echo "not formatted, run gofmt -w on:"
	echo "$unformatted"
	exit 1
fi

git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' f; do
	[ -e "$f" ] && printf '%s\0' "$f"
done | tar --null -T - -cf - | tar -xf - -C "$copy"
(cd "$copy" && make --no-print-directory generate && go mod tidy)
for path in apis config/crd docs/reference.md go.mod go.sum; do
	if ! diff -ru "$path" "$copy/$path"; then
		echo "$path is not current: run 'make generate' and 'go mod tidy', and commit the result."
		exit 1
	fi
done
go vet ./...
echo "generated files, formatting and modules are current"
