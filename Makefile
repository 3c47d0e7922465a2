# Copyright 2026 The kubenest Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Everything is built for this machine from pinned modules; nothing is downloaded by hand.
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/kubenest/kubenest/api/version.version=$(VERSION)
TOOLS := bin/tools
# Where the tests find etcd, kube-apiserver and kubectl. Point it at setup-envtest's if you have them.
KUBEBUILDER_ASSETS ?= $(CURDIR)/bin/k8s
export KUBEBUILDER_ASSETS
# What 'make generate manifests' writes.
GENERATED := api/v1alpha1/zz_generated.deepcopy.go api/v1alpha1/applyconfiguration config/crd/bases
# Arguments for the test run, such as TESTFLAGS='-run TestDial -count=5'.
TESTFLAGS ?=

##@ Use

.PHONY: run
run: control-plane build ## Start a hub and two clusters on this machine (CLUSTERS=5 for more); Ctrl-C stops all
	@exec bin/devenv run --clusters "$${CLUSTERS:-2}"

.PHONY: test
test: control-plane argocd build ## Build what is missing and run every test
	@echo "test: the product's packages, with the race detector"
	$(GO) test -race -shuffle=on -timeout 20m $(TESTFLAGS) ./...
	@echo "test: end to end, on the environment of 'make run'"
	@# One package at a time: each runs clusters of its own.
	cd hack && $(GO) test -p 1 -race -shuffle=on -timeout 30m $(TESTFLAGS) ./...

.PHONY: bench
bench: control-plane build ## Measure sessions and deployments beside a floor, in one table
	@exec bin/bench

##@ Develop

.PHONY: build
build: ## Build every program into bin/
	@echo "build: hub, operator and development programs"
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/kubenest-hub ./hub
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/kubenest-operator ./operator
	@cd hack && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o ../bin/ ./devenv ./fleetsim ./bench

.PHONY: control-plane
control-plane: ## Build etcd, the Kubernetes programs, kubectl and kwok into bin/k8s
	@hack/controlplane/build.sh

.PHONY: argocd
argocd: ## Build the part of Argo CD that the tests need into bin/argocd
	@hack/argocd/build.sh

.PHONY: generate
generate: $(TOOLS)/controller-gen ## Generate deep copies and apply configurations
	@$(TOOLS)/controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/v1alpha1
	@rm -rf api/v1alpha1/applyconfiguration
	@$(TOOLS)/controller-gen applyconfiguration:headerFile=hack/boilerplate.go.txt paths=./api/v1alpha1

.PHONY: manifests
manifests: $(TOOLS)/controller-gen ## Generate the CRDs
	@$(TOOLS)/controller-gen crd paths=./api/v1alpha1 output:crd:dir=config/crd/bases

.PHONY: fmt
fmt: $(TOOLS)/golangci-lint ## Format the code
	@$(TOOLS)/golangci-lint fmt

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## Check the code against the project's rules
	@echo "lint: the product"
	@$(TOOLS)/golangci-lint run --timeout 15m
	@echo "lint: hack"
	@cd hack && ../$(TOOLS)/golangci-lint run --timeout 15m --config ../.golangci.yml

.PHONY: verify
verify: generate manifests ## Fail if generated files or module files are stale
	@$(GO) mod tidy -diff
	@cd hack && $(GO) mod tidy -diff
	@if [[ -n "$$(git status --porcelain -- $(GENERATED))" ]]; then \
		echo "verify: generated files are stale; run 'make generate manifests' and commit:" >&2; \
		git --no-pager status --short -- $(GENERATED) >&2; exit 1; fi
	@echo "verify: generated files are up to date"

.PHONY: fuzz
fuzz: ## Fuzz each decoder for FUZZTIME (default 20s)
	@for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' "$$pkg" | grep '^Fuzz' || true); do \
			echo "fuzz: $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime "$${FUZZTIME:-20s}" "$$pkg"; \
		done; done

.PHONY: deflake
deflake: control-plane ## Run the product's tests until one fails (PKG=./hub/...)
	@while $(GO) test -race -shuffle=on -count=1 $(TESTFLAGS) "$${PKG:-./...}"; do :; done

.PHONY: clean
clean: ## Remove what was built, and the state of 'make run'
	@rm -rf bin .kubenest

$(TOOLS)/%: hack/tools/go.mod hack/tools/golangci-lint/go.mod
	@hack/tools/build.sh $*

##@ Help

.PHONY: help
help: ## Show this
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z_-]+:.*##/ {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
