#include "worker/save/read_bytes.h"

#include <string>

#include "common/error.h"

namespace ddp::worker {

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::string why_not;
  const std::optional<InputFile> file = InputFile::open(path, why_not);
  if (!file) throw UsageError("open, " + path.string() + ": " + why_not);
  return read_bytes(*file);
}

std::vector<std::byte> read_bytes(const InputFile& file) {
  std::vector<std::byte> bytes(file.size());
  bytes.resize(file.read(bytes));  // somebody may have cut the file since
  return bytes;
}

}  // namespace ddp::worker
