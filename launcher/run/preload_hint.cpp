#include "launcher/run/preload_hint.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <string>

#include "common/exit_code.h"
#include "common/files/descriptor.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/plan/start/preload.h"

namespace ddp::launcher {
namespace {

constexpr const char* kMarker = "preload-hint";

bool is_first_time(const std::filesystem::path& scratch_place) {
  std::string ignored;
  const std::optional<PrivateDir> place = PrivateDir::open(scratch_place, ignored);
  if (!place) return false;
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  return static_cast<bool>(Descriptor(::openat(place->fd(), kMarker, flags, 0600)));
}

}  // namespace

void hint_at_preload(const EndJob& end,
                     const JobSpec& spec,
                     const std::filesystem::path& scratch_place,
                     Console& console) {
  const bool could_preload = spec.by_python && spec.preload.empty() && !spec.debug_rank &&
                             spec.wrappers.empty() && !find_preload_obstacle(spec);
  const bool is_slow = end.exit_code == exit_code::kOk && end.first_join > kSlowStart;
  if (!could_preload || !is_slow || !console.shows(log::Level::info)) return;
  if (!is_first_time(scratch_place)) return;
  console.info(fmt::format(
      "the first rank was ready after {:.1f} s, mostly of imports. --preload auto imports once for "
      "all ranks, and the next job finds it done: docs/warm-start.md. (This is said once.)",
      std::chrono::duration<double>(end.first_join).count()));
}

}  // namespace ddp::launcher
