// A stand-in for the library of NVIDIA's driver: two GPUs of 80 GiB. The file DDP_FAKE_NVML says
// who has memory of them, "GPU PID" a line, or "hang": the library never answers.
// DDP_FAKE_NVML_FREE: how much of it is free, as "81000 1024", in MiB.
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace {

constexpr int kSuccess = 0;
constexpr int kUnknown = 999;

struct Process {  // as worker and launcher declare it
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

std::ifstream open_state() {
  const char* const path = std::getenv("DDP_FAKE_NVML");
  return std::ifstream(path == nullptr ? "/dev/null" : path);
}

std::array<char, 2> gpus;  // a handle is the address of one

unsigned int index_of(void* device) {
  return static_cast<unsigned int>(static_cast<char*>(device) - gpus.data());
}

struct Memory {  // nvmlMemory_t
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

}  // namespace

extern "C" {

int nvmlInit_v2() {
  std::string word;
  open_state() >> word;
  while (word == "hang")
    ::pause();
  return kSuccess;
}

int nvmlShutdown() {
  return kSuccess;
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = gpus.size();
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  *device = index < gpus.size() ? &gpus[index] : nullptr;
  return index < gpus.size() ? kSuccess : kUnknown;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned int* count, Process* processes) {
  const unsigned int asked = index_of(device);
  const unsigned int room = *count;
  *count = 0;
  std::ifstream state = open_state();
  unsigned int gpu = 0;
  unsigned int pid = 0;
  while (state >> gpu >> pid) {
    if (gpu == asked && *count < room) processes[(*count)++] = Process{pid, 1, 0, 0};
  }
  return kSuccess;
}

int nvmlSystemGetDriverVersion(char* text, unsigned int size) {
  std::snprintf(text, size, "580.65.06");
  return kSuccess;
}

int nvmlDeviceGetName(void* /*device*/, char* text, unsigned int size) {
  std::snprintf(text, size, "Fake GPU");
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const char* const text = std::getenv("DDP_FAKE_NVML_FREE");
  std::istringstream free(text == nullptr ? "81920 81920" : text);
  for (unsigned int i = 0; i <= index_of(device); ++i)
    free >> memory->free;
  memory->free <<= 20;
  memory->total = 81920ULL << 20;
  memory->used = memory->total - memory->free;
  return kSuccess;
}

}  // extern "C"
