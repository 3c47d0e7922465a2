#!/usr/bin/env bash
# Copyright 2026 The kubenest Authors.
# SPDX-License-Identifier: Apache-2.0
#
# build.sh TOOL…: builds development tools into bin/tools, each only if its pinned version changed.
# Tools are those of go.mod's tool block, and golangci-lint, whose hundreds of modules have a go.mod
# of their own: together, one's dependencies would move the other's.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
out=$here/../../bin/tools
cd -- "$here"
source ./gobuild.sh
mkdir -p -- "$out"

# build TOOL PACKAGE FILE…: in the tool's module. The files are what its stamp is made of.
build() {
	local tool=$1 package=$2 stamp new
	shift 2
	gobuild_label=$tool
	stamp=$(gobuild_stamp "$@")
	up_to_date "$tool" "$stamp" && return
	gobuild_lock "$out/.$tool.lock"
	up_to_date "$tool" "$stamp" && return
	gobuild_say 'building'
	new=$(mktemp -d "$out/.new.XXXXXX") # beside its place, so that a rename puts it there
	gobuild_trash+=("$new")
	gobuild "$new/$tool" "$package" -ldflags '-s -w'
	rm -f -- "$out/.$tool.stamp"
	mv -f -- "$new/$tool" "$out/$tool"
	printf '%s\n' "$stamp" >"$out/.$tool.stamp"
}

up_to_date() {
	[[ -x $out/$1 && -f $out/.$1.stamp && $(cat -- "$out/.$1.stamp") == "$2" ]]
}

for tool in "$@"; do
	case $tool in
	controller-gen)
		build "$tool" sigs.k8s.io/controller-tools/cmd/controller-gen go.mod go.sum build.sh gobuild.sh
		;;
	ginkgo)
		build "$tool" github.com/onsi/ginkgo/v2/ginkgo go.mod go.sum build.sh gobuild.sh
		;;
	golangci-lint)
		cd golangci-lint
		build "$tool" . go.mod go.sum main.go ../build.sh ../gobuild.sh
		cd ..
		;;
	*)
		echo "hack/tools/build.sh: no tool named '$tool': controller-gen, ginkgo, golangci-lint" >&2
		exit 2
		;;
	esac
done
