// Any bytes as a job file: one UsageError, or a job that survives being written and read again.
#include <optional>

#include "common/error.h"
#include "common/job/resolve_job.h"
#include "tests/fuzz/same_job.h"

namespace {

std::optional<ddp::JobValues> read_job(const std::string& text) {
  const ddp::YamlDocument file = ddp::parse_yaml(text, "job.yaml");
  try {
    return ddp::resolve_job(&file, {});
  } catch (const ddp::UsageError&) {
    return std::nullopt;
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto job = read_job(ddp::fuzz::to_string(data, size));
  if (job) ddp::fuzz::require_same_when_written(*job);
  return 0;
}
