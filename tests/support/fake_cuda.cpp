// A stand-in for the driver's library for CUDA: two GPUs, or what the variable DDP_FAKE_CUINIT says
// that cuInit gives.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotInitialized = 3;
constexpr int kGpus = 2;

int result() {
  const char* const text = std::getenv("DDP_FAKE_CUINIT");
  return text == nullptr ? kSuccess : std::atoi(text);
}

}  // namespace

extern "C" {

int cuInit(unsigned int /*flags*/) {
  return result();
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

int cuDeviceGetCount(int* count) {
  *count = kGpus;
  return result() == kSuccess ? kSuccess : kNotInitialized;
}

int cuDeviceGet(int* device, int index) {
  *device = index;
  return kSuccess;
}

int cuDeviceGetName(char* text, int size, int /*device*/) {
  std::snprintf(text, static_cast<std::size_t>(size), "Fake GPU");
  return kSuccess;
}

int cuDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:A%d:00.0", device);
  return kSuccess;
}

int cuDeviceGetUuid_v2(unsigned char* bytes, int device) {
  std::memset(bytes, 0xab, 16);
  bytes[15] = static_cast<unsigned char>(device);
  return kSuccess;
}

int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  constexpr int kMajor = 75;
  *value = attribute == kMajor ? 9 : 0;
  return kSuccess;
}

}  // extern "C"
