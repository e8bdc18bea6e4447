# Both programs and LibTorch with CUDA: docker build -f deploy/docker/worker-cuda.Dockerfile -t ddp-worker-cuda:1 .
# The node brings the driver alone, by the NVIDIA container toolkit: CUDA and NCCL come with LibTorch's own packages.
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 python3-pip && rm -rf /var/lib/apt/lists/*
RUN python3 -m pip install --no-cache-dir --no-compile --target /opt/torch torch==2.15.0
WORKDIR /src
COPY make.sh CMakeLists.txt CMakePresets.json README.md CHANGELOG.md THIRD_PARTY.md ./
COPY cmake cmake
COPY common common
COPY launcher launcher
COPY worker worker
COPY deploy/progress deploy/progress
COPY configs configs
RUN DDP_CUDA=ON DDP_TORCH=/opt/torch DDP_PYTHON=/nowhere ./make.sh install /usr/local

FROM debian:bookworm-slim
# For `ddp-worker fetch` alone.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libcurl3-gnutls && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/torch/torch/lib /opt/torch/torch/lib
COPY --from=build /opt/torch/nvidia /opt/torch/nvidia
COPY --from=build /usr/local/bin /usr/local/bin
COPY --from=build /usr/local/lib/libddp-worker-cuda.so /usr/local/lib/
COPY --from=build /usr/local/share/ddp /usr/local/share/ddp
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /runs
ENTRYPOINT ["ddp-launch"]
CMD ["--help"]
