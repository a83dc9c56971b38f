# The same content as `make image` gives, for those who build with an engine:
#
#   docker build --build-arg REVISION=$(git rev-parse --short=12 HEAD) -t localhost/fairway:0.1.0 .
#
#   docker build --target fairway-waf -t localhost/fairway-waf:0.1.0 .    fairway-waf, which is one static program
#
# The program, the loader and the libraries that it names, and nothing else: no shell, no packages.
FROM rust:1.95.0-bookworm AS build
ARG REVISION=unknown
ENV FAIRWAY_REVISION=$REVISION
WORKDIR /source
COPY . .
RUN cargo build --release --locked -p fairway
RUN set -eu; \
    mkdir -p /image/dev /image/etc /image/proc /image/run /image/sys /image/usr/bin /image/var; \
    mkdir -m 1777 /image/tmp; \
    strip --strip-debug -o /image/usr/bin/fairway target/release/fairway; \
    for library in $(ldd target/release/fairway | grep -o '/[^ ]*'); do \
        mkdir -p "/image$(dirname "$library")"; \
        cp -L "$library" "/image$library"; \
    done

FROM golang:1.26-bookworm AS build-waf
WORKDIR /source
COPY Cargo.toml .
COPY waf waf
RUN cd waf && CGO_ENABLED=0 go build -trimpath -tags no_fs_access -o /usr/bin/fairway-waf \
    -ldflags "-s -w -X main.version=$(sed -n 's/^version = "\(.*\)"/\1/p' ../Cargo.toml)" .

FROM scratch AS fairway-waf
ARG REVISION=unknown
LABEL org.opencontainers.image.title="fairway-waf" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision=$REVISION
COPY --from=build-waf /usr/bin/fairway-waf /usr/bin/fairway-waf
USER 65532:65532
ENTRYPOINT ["/usr/bin/fairway-waf"]

FROM scratch
ARG REVISION=unknown
LABEL org.opencontainers.image.title="fairway" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision=$REVISION
COPY --from=build /image/ /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER 65532:65532
ENTRYPOINT ["/usr/bin/fairway"]
