// Any bytes as an IDX file, plain, gzip or xz: one UsageError, or exactly the bytes that the shape
// says.
#include "worker/data/format/idx.h"

#include "common/error.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const int rank : {1, 3}) {
    try {
      const ddp::worker::IdxArray array = ddp::worker::parse_idx({data, size}, "input", rank);
      std::int64_t elements = 1;
      for (const std::int64_t length : array.shape)
        elements *= length;
      ddp::fuzz::require(array.shape.size() == static_cast<std::size_t>(rank),
                         "the rank is the asked one");
      ddp::fuzz::require(array.bytes.size() == static_cast<std::size_t>(elements),
                         "the shape is full");
    } catch (const ddp::UsageError&) {
    }
  }
  return 0;
}
