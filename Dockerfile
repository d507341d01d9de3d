# The node alone: built from the lock file, run without privileges on a slim Debian.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY . .
RUN cargo build --locked --release --package nilas-engine --bin nilas-server

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --user-group --uid 10001 --home-dir /data nilas \
    && install --directory --owner=nilas --group=nilas /data
COPY --from=build /build/target/release/nilas-server /usr/local/bin/
USER nilas
WORKDIR /data
# Within a container loopback reaches nobody: give NILAS_SERVER_LISTEN=0.0.0.0:9000 and credentials
# (NILAS_CREDENTIALS_0_ACCESS_KEY, NILAS_CREDENTIALS_0_SECRET_KEY), without which it refuses to start.
EXPOSE 9000 9001
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["curl", "--fail", "--silent", "--output", "/dev/null", "http://127.0.0.1:9001/healthz"]
ENTRYPOINT ["nilas-server"]
