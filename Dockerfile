# The same content as `make image` gives, for those who build with an engine:
#
#   docker build --build-arg REVISION=$(git rev-parse --short=12 HEAD) -t localhost/fairway:0.1.0 .
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

FROM scratch
ARG REVISION=unknown
LABEL org.opencontainers.image.title="fairway" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision=$REVISION
COPY --from=build /image/ /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER 65532:65532
ENTRYPOINT ["/usr/bin/fairway"]
