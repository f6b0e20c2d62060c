# Sourced by scripts: `stage NAME COMMAND...` runs a command and prints how long it took.
stage() {
	local name=$1 begin=$SECONDS
	shift
	echo "== $name"
	if "$@"; then
		echo "== $name: $((SECONDS - begin)) s"
	else
		echo "== $name: FAILED after $((SECONDS - begin)) s" >&2
		return 1
	fi
}
