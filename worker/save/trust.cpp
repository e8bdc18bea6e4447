#include "worker/save/trust.h"

#include <unistd.h>

#include <optional>

#include "common/error.h"
#include "common/files/input_file.h"
#include "worker/save/read_bytes.h"

namespace ddp::worker {

bool is_trusted(uid_t owner) {
  return owner == 0 || owner == ::geteuid();
}

std::string why_not_trusted(uid_t owner) {
  return "it belongs to user " + std::to_string(owner) + ", not to you (user " +
         std::to_string(::geteuid()) +
         "). If you trust them, give --trust-checkpoint, or set checkpoint.trust: true";
}

std::vector<std::byte> read_trusted(const std::filesystem::path& path, bool trust) {
  std::string why_not;
  const std::optional<InputFile> file = InputFile::open(path, why_not);
  if (!file) throw UsageError("open, " + path.string() + ": " + why_not);
  if (!trust && !is_trusted(file->owner()))
    throw UsageError(path.string() + ": " + why_not_trusted(file->owner()) + ".");
  const auto memory = static_cast<std::uintmax_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uintmax_t>(::sysconf(_SC_PAGESIZE));
  if (file->size() > memory)
    throw UsageError(path.string() + ": it has " + std::to_string(file->size()) +
                     " bytes, more than this node's memory of " + std::to_string(memory));
  return read_bytes(*file);
}

}  // namespace ddp::worker
