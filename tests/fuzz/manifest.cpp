// Any bytes as a checkpoint's manifest, and any content under a right checksum: one UsageError, or
// a manifest that reads back equal.
#include "worker/save/checkpoint/manifest.h"

#include <span>
#include <string>

#include "common/error.h"
#include "tests/fuzz/fuzz.h"
#include "worker/plan/digest.h"

namespace {

void read_and_write(const std::string& text) {
  try {
    const ddp::worker::Manifest manifest = ddp::worker::parse_manifest(text);
    ddp::fuzz::require(ddp::worker::parse_manifest(to_text(manifest)) == manifest,
                       "what was read is written and read back equal");
  } catch (const ddp::UsageError&) {
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  read_and_write(text);
  const std::string checksum = ddp::worker::digest(std::as_bytes(std::span(text)));
  read_and_write("{\"checksum\":\"" + checksum + "\",\n" + text);
  return 0;
}
