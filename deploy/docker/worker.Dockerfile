# Both programs, Python and torch, from the packages that ./make.sh wheel has made. Two targets, for CPUs and for GPUs of NVIDIA:
#   docker build -f deploy/docker/worker.Dockerfile --target cpu -t ddp-worker-cpu:1 build/wheel
#   docker build -f deploy/docker/worker.Dockerfile --target cuda -t ddp-worker-cuda:1 build/wheel
ARG TORCH=2.15.0

FROM debian:bookworm-slim AS base
# libcurl: for `ddp-worker fetch` alone.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates libcurl3-gnutls python3-venv && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/ddp && useradd --uid 1000 --create-home ddp && install --directory --owner=ddp --group=ddp /runs
ENV PATH=/opt/ddp/bin:$PATH
WORKDIR /runs
# As process 1 it reaps what its workers leave, and passes SIGTERM on.
ENTRYPOINT ["ddp-launch"]
CMD ["--help"]

FROM base AS cpu
ARG TORCH
# PyTorch's own index: torch of the default one brings 4 GB of CUDA.
ARG INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --index-url $INDEX torch==$TORCH
RUN --mount=type=bind,target=/wheels pip install --no-cache-dir --no-index /wheels/*.whl
USER 1000:1000

# The node brings the driver alone, by the NVIDIA container toolkit: CUDA and NCCL come with torch.
FROM base AS cuda
ARG TORCH
RUN pip install --no-cache-dir torch==$TORCH
RUN --mount=type=bind,target=/wheels pip install --no-cache-dir --no-index /wheels/*.whl
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000:1000
