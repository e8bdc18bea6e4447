"""For tests whose bound depends on roundings: the kernels that most CPUs have, as variables of LibTorch and oneDNN."""

COMMON_KERNELS = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
