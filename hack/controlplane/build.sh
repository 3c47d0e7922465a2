#!/usr/bin/env bash
# Copyright 2026 The kubenest Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the control plane into bin/k8s, laid out as envtest wants it (KUBEBUILDER_ASSETS), and
# the kwok stages that go with it into bin/k8s/stages. Does nothing if all of it is up to date.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
out=$here/../../bin/k8s
cd -- "$here"
source ../tools/gobuild.sh
gobuild_label=controlplane

programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok)

# What the fake nodes and pods do. A node becomes ready at once and keeps its Lease; a pod becomes
# ready at once, ends if a Job owns it, and goes when it is deleted. The chaos stages act only on
# what carries their label.
stages=(
	node/fast/node-initialize.yaml
	node/heartbeat-with-lease/node-heartbeat-with-lease.yaml
	pod/fast/pod-ready.yaml
	pod/fast/pod-complete.yaml
	pod/fast/pod-delete.yaml
	node/chaos/node-not-ready.yaml
	pod/chaos/pod-container-running-failed.yaml
)

# version MODULE: the version go.mod pins, without the v.
version() {
	sed -n "s|^[[:space:]]*$1 v\([^ ]*\).*|\1|p" go.mod
}

up_to_date() {
	local program
	[[ -f $out/.stamp && $(cat -- "$out/.stamp") == "$stamp" ]] || return 1
	for program in "${programs[@]}"; do
		[[ -x $out/$program ]] || return 1
	done
	[[ -d $out/stages ]]
}

# check: each program starts and says its version. A clash between two of them (a flag or a metric
# registered twice) is a panic at start, and should fail here and not in somebody's test.
check() {
	local program said
	for program in "${programs[@]}"; do
		local arguments=(--version)
		if [[ $program == kubectl ]]; then arguments=(version --client); fi
		if ! said=$("$1" "$program" "${arguments[@]}" 2>&1); then
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

kubernetes=$(version k8s.io/kubernetes)
gobuild_say "building Kubernetes $kubernetes, etcd $(version go.etcd.io/etcd/server/v3) and kwok $(version sigs.k8s.io/kwok)"
gobuild_say 'the first time this takes about 10 minutes on 2 cores and 4 GB of disk; later, seconds'

# Kubernetes' programs learn their version from the linker; without it they call themselves v0.0.0
# and refuse features of their own release. Modules carry no commit, and a build date would make
# every build differ.
IFS=. read -r major minor _ <<<"$kubernetes"
ldflags='-s -w'
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	ldflags+=" -X $package.gitVersion=v$kubernetes -X $package.gitMajor=$major -X $package.gitMinor=$minor"
	ldflags+=" -X $package.gitCommit=unknown -X $package.gitTreeState=archive -X $package.buildDate=1970-01-01T00:00:00Z"
done

new=$(mktemp -d "$out/.new.XXXXXX") # beside its place, so that a rename puts it there
gobuild_trash+=("$new")
gobuild "$new/controlplane" . -ldflags "$ldflags"
check "$new/controlplane"

module=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)
mkdir -- "$new/stages"
for stage in "${stages[@]}"; do
	cp -- "$module/kustomize/stage/$stage" "$new/stages/"
done
chmod -R u+w -- "$new/stages" # the module cache is read-only

# Everything is there: put it in place. The programs are links, so one rename changes all of them,
# and a process that runs keeps the file it was started from.
rm -f -- "$out/.stamp"
mv -f -- "$new/controlplane" "$out/controlplane"
for program in "${programs[@]}"; do
	ln -sfn controlplane "$out/$program"
done
rm -rf -- "$out/stages"
mv -- "$new/stages" "$out/stages"
printf '%s\n' "$stamp" >"$out/.stamp"
