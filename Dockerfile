# Copyright 2026 The kubenest Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Both programs in one image each: docker build --target hub . / docker build --target operator .
# The build runs on the builder's own platform and cross-compiles, so that arm64 images need no emulation.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY config config
COPY controllers controllers
COPY hub hub
COPY operator operator
ARG TARGETOS TARGETARCH VERSION=dev
RUN for program in hub operator; do \
      CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
        -ldflags "-s -w -X github.com/kubenest/kubenest/api/version.version=$VERSION" \
        -o /out/kubenest-$program ./$program || exit 1; \
    done

FROM gcr.io/distroless/static:nonroot AS hub
COPY --from=build /out/kubenest-hub /kubenest-hub
USER 65532:65532
ENTRYPOINT ["/kubenest-hub"]

FROM gcr.io/distroless/static:nonroot AS operator
COPY --from=build /out/kubenest-operator /kubenest-operator
USER 65532:65532
ENTRYPOINT ["/kubenest-operator"]
