#include "common/progress/progress_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>
#include <new>
#include <utility>

#include "common/error.h"
#include "common/progress/alive_lock.h"

namespace ddp {
namespace {

constexpr std::size_t kPageBytes = 4096;

void* map_page(int fd) {
  void* const memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) throw SystemError(system_message("mmap", "progress page", errno));
  return memory;
}

// clang-format off
constexpr std::string_view kPhaseNames[] = {"none", "starting", "joining", "loading", "training",
                                            "evaluating", "saving", "stopping", "finished",
                                            "data", "forward", "backward"};
// clang-format on
static_assert(std::size(kPhaseNames) == kPhases);

}  // namespace

std::string_view to_text(Phase phase) {
  // A page of another release may have other phases.
  return phase <= kLastPhase ? kPhaseNames[static_cast<std::size_t>(phase)] : "unknown";
}

MappedProgressPage MappedProgressPage::create() {
  Descriptor fd(check(::memfd_create("ddp-progress", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                      "memfd_create",
                      "progress page"));
  check(::ftruncate(fd.fd(), kPageBytes), "ftruncate", "progress page");
  // Without seals a worker could truncate the page and so end its agent by SIGBUS.
  check(::fcntl(fd.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
        "fcntl",
        "progress page");
  MappedProgressPage page{new (map_page(fd.fd())) ProgressPage(), std::move(fd)};  // in this order
  make_alive_lock(*page);
  return page;
}

MappedProgressPage MappedProgressPage::open(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size != static_cast<off_t>(kPageBytes)) {
    throw UsageError(
        "DDP_PROGRESS_FD=" + std::to_string(fd) +
        ": this descriptor is not a progress page. Unset the variable, or start by ddp-launch.");
  }
  // Do not construct the page here: the agent has done so.
  MappedProgressPage mapped(static_cast<ProgressPage*>(map_page(fd)), Descriptor());
  ::close(fd);
  mapped->phase.store(Phase::starting, std::memory_order_relaxed);
  mapped->version.store(ProgressPage::kVersion, std::memory_order_release);
  take_alive_lock(*mapped);
  return mapped;
}

void MappedProgressPage::Unmap::operator()(ProgressPage* page) const {
  if (!release_alive_lock(*page)) return;  // the other thread's list of locks leads through it
  ::munmap(static_cast<void*>(page), kPageBytes);
}

}  // namespace ddp
