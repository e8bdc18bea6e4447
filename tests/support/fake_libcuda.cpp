// A stand-in for the driver's library for CUDA: two GPUs that can access each other, of a driver
// for CUDA 13.0. Variables make it another one. DDP_FAKE_CUINIT: what cuInit gives, or "hang": it
// never answers. DDP_FAKE_CUDA: another version, as 12040. DDP_FAKE_PEERS=0: no access.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotInitialized = 3;
constexpr int kGpus = 2;

int variable(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

int result() {
  return variable("DDP_FAKE_CUINIT", kSuccess);
}

}  // namespace

extern "C" {

int cuInit(unsigned int /*flags*/) {
  const char* const text = std::getenv("DDP_FAKE_CUINIT");
  while (text != nullptr && std::strcmp(text, "hang") == 0)
    ::pause();
  return result();
}

int cuDriverGetVersion(int* version) {
  *version = variable("DDP_FAKE_CUDA", 13000);
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

int cuDeviceCanAccessPeer(int* can, int /*device*/, int /*peer*/) {
  *can = variable("DDP_FAKE_PEERS", 1);
  return kSuccess;
}

}  // extern "C"
