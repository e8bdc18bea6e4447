// A stand-in for ddp-worker's module for GPUs, of which `ddp-launch doctor` asks CUDA's version
// only.

extern "C" int cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return 0;
}
