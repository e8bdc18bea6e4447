// Any text as KEY=VALUE on the command line: no override, one UsageError, or a value that reads
// back.
#include <array>
#include <optional>

#include "common/error.h"
#include "common/job/resolve_job.h"
#include "tests/fuzz/same_job.h"

namespace {

std::optional<ddp::JobValues> read_job(const ddp::JobOverride& given) {
  try {
    return ddp::resolve_job(nullptr, std::array{given});
  } catch (const ddp::UsageError&) {
    return std::nullopt;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto given = ddp::parse_override(ddp::fuzz::to_string(data, size));
  if (!given) return 0;
  const auto job = read_job(*given);
  if (job) ddp::fuzz::require_same_when_written(*job);
  return 0;
}
