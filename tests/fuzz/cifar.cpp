// Any bytes as a file of CIFAR records, plain, gzip or xz: one UsageError, or as many whole records
// as were asked for, with labels that are classes.
#include "worker/data/format/cifar.h"

#include <algorithm>

#include "common/error.h"
#include "tests/fuzz/fuzz.h"

namespace {

void read_as(const ddp::worker::CifarForm& form, std::span<const std::uint8_t> bytes) {
  // One record is 3 KiB, which is most of what an input is.
  constexpr std::int64_t kCount = 1;
  try {
    const ddp::worker::CifarRecords records =
        ddp::worker::parse_cifar(bytes, "input", form, kCount);
    ddp::fuzz::require(records.labels.size() == kCount, "there are as many labels as asked for");
    ddp::fuzz::require(records.pixels.size() == kCount * 3072, "every image is whole");
    ddp::fuzz::require(records.labels[0] < form.classes, "the label is a class");
  } catch (const ddp::UsageError&) {
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_as(ddp::worker::kCifar10, {data, size});
  read_as(ddp::worker::kCifar100, {data, size});
  return 0;
}
