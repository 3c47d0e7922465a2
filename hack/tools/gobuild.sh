# Copyright 2026 The kubenest Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the build scripts under hack/: builds one Go program of the module in the current
# directory for this machine, and only when something it depends on has changed.
# bash 3.2 is enough. Callers set -euo pipefail.

# A build for this machine, whatever the caller builds for: GOOS, GOARCH and GOFLAGS are often set
# for an image, and a go.work above would replace the pinned versions.
unset GOOS GOARCH GOARM64 GOAMD64 GOEXPERIMENT
export GOFLAGS='-mod=readonly -trimpath -buildvcs=false' GOWORK=off CGO_ENABLED=0

gobuild_say() { printf '%s: %s\n' "$gobuild_label" "$*"; }

# gobuild_stamp FILE…: what the output depends on, as one line.
gobuild_stamp() {
	{
		go env GOVERSION GOHOSTOS GOHOSTARCH
		cat -- "$@"
	} | if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

# gobuild_lock FILE: one build at a time, where flock exists. Elsewhere two builds at once merely
# do the work twice: the outputs are renamed into place.
gobuild_lock() {
	command -v flock >/dev/null || return 0
	exec 9>"$1"
	flock -n 9 && return 0
	gobuild_say 'waiting for another build of the same'
	flock 9
}

# gobuild_go LOG COMMAND…: runs a go command with its output in LOG. Each 15 seconds one plain line
# says how far it is; if it fails, what it said is shown.
gobuild_go() {
	local log=$1 started=$SECONDS next=$((SECONDS + 15)) status=0
	shift
	"$@" >"$log" 2>"$log.err" 9>&- &
	gobuild_child=$!
	while kill -0 "$gobuild_child" 2>/dev/null; do
		sleep 0.2
		if ((SECONDS >= next)); then
			next=$((next + 15))
			gobuild_say "$((SECONDS - started)) s: $(gobuild_progress "$log.err")"
		fi
	done
	wait "$gobuild_child" || status=$?
	gobuild_child=
	if ((status != 0)); then
		gobuild_say "$1 $2 failed after $((SECONDS - started)) s" >&2
		# With -v go names every package it compiles. Those lines are not the news.
		grep -Ev '^[A-Za-z0-9_.~/-]+$|^go: downloading ' "$log.err" >&2 || true
		return "$status"
	fi
}

gobuild_progress() {
	local packages modules
	modules=$(grep -c '^go: downloading ' "$1" || true)
	packages=$(grep -Ec '^[A-Za-z0-9_.~/-]+$' "$1" || true)
	if [[ -z $gobuild_total ]]; then
		echo "finding packages, $modules modules downloaded"
	elif ((packages == 0)); then
		echo "no package compiled yet: looking through the build cache, or linking"
	else
		echo "$packages packages compiled, at most $gobuild_total"
	fi
}

# gobuild OUTPUT PACKAGE [FLAG…]: go build, with progress. $gobuild_label names it in what is said.
gobuild() {
	local output=$1 package=$2 started=$SECONDS work
	shift 2
	work=$(mktemp -d)
	gobuild_trash+=("$work")
	gobuild_total=
	gobuild_go "$work/list" go list -deps "$package"
	gobuild_total=$(($(wc -l <"$work/list")))
	gobuild_go "$work/build" go build -v -o "$output" "$@" "$package"
	gobuild_say "built in $((SECONDS - started)) s ($(grep -Ec '^[A-Za-z0-9_.~/-]+$' "$work/build.err" || true) packages compiled)"
}

# Whatever ends the script: no compiler keeps running, and nothing half-made stays.
gobuild_child=
gobuild_trash=()
gobuild_cleanup() {
	if [[ -n $gobuild_child ]]; then kill "$gobuild_child" 2>/dev/null || true; fi
	if ((${#gobuild_trash[@]})); then rm -rf -- "${gobuild_trash[@]}"; fi
}
trap gobuild_cleanup EXIT
trap 'exit 130' INT TERM HUP
