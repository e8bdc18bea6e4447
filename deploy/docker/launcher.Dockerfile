# ddp-launch alone, to be put beside any program: docker build -f deploy/docker/launcher.Dockerfile -t ddp-launch:1 .
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY make.sh CMakeLists.txt CMakePresets.json README.md CHANGELOG.md THIRD_PARTY.md ./
COPY cmake cmake
COPY common common
COPY launcher launcher
COPY worker worker
COPY deploy/progress deploy/progress
COPY configs configs
RUN ./make.sh build-launcher && cp build/launcher-x86_64/ddp-launch /usr/local/bin/ && \
    mkdir -p /usr/local/share/doc && cp -r build/launcher-x86_64/notices/ddp-launch /usr/local/share/doc/

# The program, which loads nothing, and the notices of what is in it.
FROM scratch
COPY --from=build /usr/local/bin/ddp-launch /usr/local/bin/ddp-launch
COPY --from=build /usr/local/share/doc/ddp-launch /usr/local/share/doc/ddp-launch
# As process 1 it reaps what its workers leave, and passes SIGTERM on.
ENTRYPOINT ["/usr/local/bin/ddp-launch"]
CMD ["--help"]
