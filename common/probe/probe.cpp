// The probe: a small program that ddp-launch and ddp-worker carry in themselves (common/node/
// probe_process), and that asks what only the system's own libraries know: the NVIDIA driver's, and
// the modules by which the system finds the address of a name. A static program can load none of
// them, and none can be trusted to return. It tells a line for each thing it finds, its parts
// separated by tabs, and "end".
// Traps: it runs with the system's glibc, which may be ten years older than the one it was built
// with. So it uses no C++ library, it begins without crt1.o, and functions that have got a new
// version since are taken in their oldest.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined(__x86_64__)
#define DDP_OLDEST "GLIBC_2.2.5"
__asm__(
    ".globl _start\n"
    "_start:\n\t"
    "xorl %ebp, %ebp\n\t"
    "movq %rsp, %rdi\n\t"
    "movq %rdx, %rsi\n\t"
    "andq $-16, %rsp\n\t"
    "call ddp_begin\n\t"
    "hlt");
#elif defined(__aarch64__)
#define DDP_OLDEST "GLIBC_2.17"
__asm__(
    ".globl _start\n"
    "_start:\n\t"
    "mov x29, #0\n\t"
    "mov x30, #0\n\t"
    "mov x1, x0\n\t"
    "mov x0, sp\n\t"
    "bl ddp_begin\n\t"
    "brk #1");
#else
#error "the probe knows x86_64 and aarch64"
#endif
__asm__(".symver dlopen, dlopen@" DDP_OLDEST);
__asm__(".symver dlsym, dlsym@" DDP_OLDEST);
__asm__(".symver dladdr, dladdr@" DDP_OLDEST);
__asm__(".symver dlerror, dlerror@" DDP_OLDEST);
__asm__(".symver __libc_start_main, __libc_start_main@" DDP_OLDEST);

extern "C" int __libc_start_main(
    int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);

namespace {

int out = -1;

__attribute__((format(printf, 1, 2))) void tell(const char* format, ...) {
  va_list parts;
  va_start(parts, format);
  (void)::vdprintf(out, format, parts);
  va_end(parts);
}

// Tabs and line ends separate what is told.
void make_one_part(char* text) {
  for (; *text != '\0'; ++text) {
    if (*text == '\t' || *text == '\n') *text = ' ';
  }
}

constexpr int kUnknownError = 999;  // of CUDA's driver; NVML's is the same

/// A library of the system, whose functions are called by name. Those of all libraries that are
/// used here return 0 when they have done it.
struct Library {
  void* handle;

  /// An unknown error if there is no such function.
  template <typename... Arguments>
  int call(const char* name, Arguments... arguments) const {
    void* const symbol = handle == nullptr ? nullptr : ::dlsym(handle, name);
    if (symbol == nullptr) return kUnknownError;
    return reinterpret_cast<int (*)(Arguments...)>(symbol)(arguments...);
  }
  template <typename... Arguments>
  bool does(const char* name, Arguments... arguments) const {
    return call(name, arguments...) == 0;
  }
};

/// What is told of one GPU by both libraries.
struct Gpu {
  int index;
  char pci[32];
  char uuid[96];
  int major;
  int minor;
  char model[96];
};

void tell_gpu(const char* kind, Gpu& gpu) {
  make_one_part(gpu.model);
  tell("%s\t%d\t%s\t%s\t%d\t%s",
       kind,
       gpu.index,
       gpu.pci,
       gpu.uuid,
       10 * gpu.major + gpu.minor,
       gpu.model);
}

// --- NVML: the part of its interface that is used here, as its reference manual declares it. The
// names carry their version, so the layouts behind them stay.

struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct NvmlProcess {  // nvmlProcessInfo_t of ..._v3
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

struct NvmlPci {  // nvmlPciInfo_t of ..._v3
  char old_bus_id[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int device_id;
  unsigned int subsystem_id;
  char bus_id[32];
};

void tell_nvml_gpu(const Library& nvml, int index) {
  void* device = nullptr;
  // A GPU that a cgroup denies us is counted, but has no handle; CUDA does not see it either.
  if (!nvml.does("nvmlDeviceGetHandleByIndex_v2", static_cast<unsigned int>(index), &device))
    return;
  Gpu gpu{};
  gpu.index = index;
  NvmlPci pci{};
  if (nvml.does("nvmlDeviceGetPciInfo_v3", device, &pci))
    ::memcpy(gpu.pci, pci.bus_id, sizeof gpu.pci - 1);
  if (!nvml.does("nvmlDeviceGetUUID", device, &gpu.uuid[0], 95U)) gpu.uuid[0] = '\0';
  if (!nvml.does("nvmlDeviceGetName", device, &gpu.model[0], 95U)) gpu.model[0] = '\0';
  if (!nvml.does("nvmlDeviceGetCudaComputeCapability", device, &gpu.major, &gpu.minor))
    gpu.major = gpu.minor = 0;
  tell_gpu("nvml-gpu", gpu);
  NvmlMemory memory{};
  if (nvml.does("nvmlDeviceGetMemoryInfo", device, &memory))
    tell("\t%llu\t%llu", memory.free, memory.total);
  else
    tell("\t\t0");
  NvmlProcess processes[64] = {};
  unsigned int count = 64;
  if (nvml.does("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, &processes[0])) {
    for (unsigned int i = 0; i < count && i < 64; ++i)
      tell("\t%u", processes[i].pid);
  }
  tell("\n");
}

/// How many GPUs it shows.
int tell_nvml() {
  const Library nvml{::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
  unsigned int count = 0;
  char version[96] = {};
  int cuda = 0;
  if (nvml.does("nvmlInit_v2")) {
    if (!nvml.does("nvmlDeviceGetCount_v2", &count)) count = 0;
    for (unsigned int i = 0; i < count; ++i)
      tell_nvml_gpu(nvml, static_cast<int>(i));
    if (!nvml.does("nvmlSystemGetCudaDriverVersion_v2", &cuda)) cuda = 0;
    if (!nvml.does("nvmlSystemGetDriverVersion", &version[0], 95U)) version[0] = '\0';
    (void)nvml.call("nvmlShutdown");
  }
  tell("nvml\t%s\t%d\n", version, cuda);
  return static_cast<int>(count);
}

// --- CUDA's driver interface, as its manual declares it. Numbers are those of CUresult and
// CUdevice_attribute in cuda.h.

constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;

void tell_cuda_gpu(const Library& cuda, int index) {
  Gpu gpu{};
  gpu.index = index;
  int device = 0;
  if (cuda.does("cuDeviceGet", &device, index)) {
    if (!cuda.does("cuDeviceGetName", &gpu.model[0], 95, device)) gpu.model[0] = '\0';
    if (!cuda.does("cuDeviceGetPCIBusId", &gpu.pci[0], 31, device)) gpu.pci[0] = '\0';
    unsigned char uuid[16] = {};
    if (cuda.does("cuDeviceGetUuid_v2", &uuid, device)) {
      // "GPU-aabbccdd-...", as NVML and CUDA_VISIBLE_DEVICES have it.
      int size = ::snprintf(gpu.uuid, sizeof gpu.uuid, "GPU");
      for (int i = 0; i < 16; ++i) {
        const bool begins = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
        size += ::snprintf(gpu.uuid + size, 8, begins ? "-%02x" : "%02x", uuid[i]);
      }
    }
    if (!cuda.does("cuDeviceGetAttribute", &gpu.major, kCapabilityMajor, device) ||
        !cuda.does("cuDeviceGetAttribute", &gpu.minor, kCapabilityMinor, device))
      gpu.major = gpu.minor = 0;
  }
  tell_gpu("cuda-gpu", gpu);
  tell("\n");
}

/// Whether one of the two cannot access the other: NCCL does not copy between them directly then.
bool are_without_peer_access(const Library& cuda, int one, int other) {
  int forth = 0;
  int back = 0;
  if (!cuda.does("cuDeviceCanAccessPeer", &forth, one, other)) return false;
  if (!cuda.does("cuDeviceCanAccessPeer", &back, other, one)) return false;
  return forth == 0 || back == 0;
}

/// Starts CUDA, without taking memory of a GPU. It is never closed: it has threads by then.
void tell_cuda() {
  // The asker says which GPUs are visible.
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const Library cuda{::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
  if (cuda.handle == nullptr) return tell("cuda\t0\t0\t0\n");
  const int result = cuda.call("cuInit", 0U);
  int known = 0;
  if (!cuda.does("cuDriverGetVersion", &known)) known = 0;
  int count = 0;
  if (result != 0 || !cuda.does("cuDeviceGetCount", &count)) count = 0;
  for (int i = 0; i < count; ++i)
    tell_cuda_gpu(cuda, i);
  // Its devices are the numbers below the count (cuDeviceGet).
  for (int one = 0; one < count; ++one) {
    for (int other = one + 1; other < count; ++other) {
      if (are_without_peer_access(cuda, one, other))
        tell("without-peer-access\t%d\t%d\n", one, other);
    }
  }
  tell("cuda\t1\t%d\t%d\n", result, known);
}

// --- ddp-worker's module for GPUs

bool opens(const char* path) {
  if (::dlopen(path, RTLD_NOW | RTLD_GLOBAL) != nullptr) return true;
  char text[2000];
  (void)::snprintf(text, sizeof text, "%s", ::dlerror());
  make_one_part(text);
  tell("error\t%s\n", text);
  return false;
}

/// cuDNN opens its parts by name when they are first used. libcudnn_graph is the one that all of it
/// needs.
void open_cudnn_part(const Library& module) {
  constexpr char kName[] = "/libcudnn.";
  void* const symbol = ::dlsym(module.handle, "cudnnGetVersion");
  Dl_info info{};
  if (symbol == nullptr || ::dladdr(symbol, &info) == 0) return;
  const char* const name = ::strstr(info.dli_fname, kName);
  if (name == nullptr) return;
  char path[4096];
  (void)::snprintf(path,
                   sizeof path,
                   "%.*s/libcudnn_graph.%s",
                   static_cast<int>(name - info.dli_fname),
                   info.dli_fname,
                   name + sizeof kName - 1);
  (void)opens(path);
}

void tell_module(const char* path) {
  if (!opens(path)) return;
  const Library module{::dlopen(path, RTLD_NOW | RTLD_GLOBAL)};
  int cuda = 0;
  // The runtime's own version; the driver is not asked.
  if (module.does("cudaRuntimeGetVersion", &cuda)) tell("cuda\t%d\n", cuda);
  open_cudnn_part(module);
}

// --- names

void tell_addresses(const char* name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(name, nullptr, &hints, &list);
  if (error != 0) return tell("error\t%d\n", error);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(
            entry->ai_addr, entry->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      tell("address\t%s\n", text);
  }
}

/// `arguments`: the descriptor to tell it to, the question, and what that needs. What is known is
/// told at once, as the next question may have no answer.
int answer(int count, char** arguments, char** /*environment*/) {
  if (count < 3) return 2;
  ::prctl(PR_SET_NAME, "ddp-probe");
  out = ::atoi(arguments[1]);
  const char* const question = arguments[2];
  const char* const more = count > 3 ? arguments[3] : "";
  if (::strcmp(question, "driver") == 0) {
    const int gpus = tell_nvml();
    const bool is_wanted = ::strcmp(more, "cuda") == 0;
    if (is_wanted || (::strcmp(more, "cuda-without-nvml") == 0 && gpus == 0)) tell_cuda();
  } else if (::strcmp(question, "module") == 0) {
    tell_module(more);
  } else if (::strcmp(question, "addresses") == 0) {
    tell_addresses(more);
  }
  tell("end\n");
  // The driver has threads, and its destructors are not ours to run.
  ::_exit(0);
}

}  // namespace

/// What crt1.o does, and nothing that glibc before 2.34 lacks. The program has no constructors.
extern "C" [[noreturn]] void ddp_begin(long* stack, void (*end)()) {
  char** const arguments = reinterpret_cast<char**>(stack + 1);
  __libc_start_main(answer,
                    static_cast<int>(*stack),
                    arguments,
                    nullptr,
                    nullptr,
                    end,
                    static_cast<void*>(stack));
  __builtin_trap();
}
