#!/usr/bin/env bash
# Copyright 2026 The kubenest Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the part of Argo CD that the tests run into bin/argocd, and puts beside it what its module
# has for it: the CRDs, the ConfigMaps, and a script that the repo server calls. Does nothing if all
# of it is up to date.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
out=$here/../../bin/argocd
cd -- "$here"
source ../tools/gobuild.sh
gobuild_label=argocd

programs=(argocd argocd-application-controller argocd-repo-server argocd-git-ask-pass redis)
# Of the module's manifests.
manifests=(crds/application-crd.yaml crds/appproject-crd.yaml base/config)

up_to_date() {
	local program
	[[ -f $out/.stamp && $(cat -- "$out/.stamp") == "$stamp" ]] || return 1
	for program in "${programs[@]}"; do
		[[ -x $out/$program ]] || return 1
	done
	[[ -x $out/git-verify-wrapper.sh && -d $out/manifests ]]
}

# check: the programs start. A clash of flags or metrics is a panic at start, and should fail here.
check() {
	local program said
	for program in argocd-application-controller argocd-repo-server; do
		if ! said=$("$1" "$program" --help 2>&1); then
			gobuild_say "$program does not start: $said" >&2
			return 1
		fi
	done
}

stamp=$(gobuild_stamp go.mod go.sum ./*.go build.sh ../tools/gobuild.sh)
if up_to_date; then exit 0; fi
mkdir -p -- "$out"
gobuild_lock "$out/.lock"
if up_to_date; then exit 0; fi # another build has just done it

package=github.com/argoproj/argo-cd/v3
version=$(sed -n "s|^[[:space:]]*$package v\([^ ]*\).*|\1|p" go.mod)
gobuild_say "building Argo CD $version"
gobuild_say 'the first time this takes about 4 minutes on 2 cores; later, seconds'

new=$(mktemp -d "$out/.new.XXXXXX") # beside its place, so that a rename puts it there
gobuild_trash+=("$new")
gobuild "$new/argocd" . -ldflags "-s -w -X $package/common.version=$version -X $package/common.gitTreeState=clean"
check "$new/argocd"

module=$(go list -m -f '{{.Dir}}' "$package")
cp -- "$module/hack/git-verify-wrapper.sh" "$new/"
mkdir -p -- "$new/manifests"
for manifest in "${manifests[@]}"; do
	cp -R -- "$module/manifests/$manifest" "$new/manifests/"
done
chmod -R u+w -- "$new" # the module cache is read-only
chmod 0755 -- "$new/git-verify-wrapper.sh"

# Everything is there: put it in place.
rm -f -- "$out/.stamp"
mv -f -- "$new/argocd" "$new/git-verify-wrapper.sh" "$out/"
for program in "${programs[@]:1}"; do
	ln -sfn argocd "$out/$program"
done
rm -rf -- "$out/manifests"
mv -- "$new/manifests" "$out/manifests"
printf '%s\n' "$stamp" >"$out/.stamp"
