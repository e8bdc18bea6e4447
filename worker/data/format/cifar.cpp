#include "worker/data/format/cifar.h"

#include <algorithm>

#include "common/error.h"
#include "worker/data/format/byte_source.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kPixels = kCifarChannels * kCifarSide * kCifarSide;
constexpr std::size_t kRecordsAtOnce = 256;  // what memory grows by

void check_label(
    int label, int classes, const char* kind, std::size_t record, const ByteSource& source) {
  if (label < classes) return;
  source.refuse(std::string(kind) + " " + std::to_string(label) + " at record " +
                std::to_string(record) + ", expected 0 to " + std::to_string(classes - 1) +
                ". It is damaged, or of another set. Get the file again");
}

void append(ByteSource source, const CifarForm& form, std::int64_t count, CifarRecords& into) {
  const std::size_t before_pixels = form.coarse_classes > 0 ? 2 : 1;
  const std::size_t record_size = before_pixels + kPixels;
  const std::size_t records = static_cast<std::size_t>(count);
  const std::string claim = std::to_string(records * record_size) + " bytes (" +
                            std::to_string(records) + " records of " + std::to_string(record_size) +
                            ")";
  std::vector<std::uint8_t> buffer(std::min(records, kRecordsAtOnce) * record_size);
  for (std::size_t done = 0; done < records;) {
    const std::size_t wanted = std::min(records - done, kRecordsAtOnce);
    const std::size_t size = source.read(std::span(buffer).first(wanted * record_size));
    // Records that have arrived are checked even if the file is cut: a wrong kind of file is the
    // better message.
    for (const std::uint8_t* record = buffer.data(); record + record_size <= buffer.data() + size;
         record += record_size, ++done) {
      if (form.coarse_classes > 0)
        check_label(record[0], form.coarse_classes, "coarse label", done, source);
      check_label(record[before_pixels - 1], form.classes, "label", done, source);
      into.labels.push_back(record[before_pixels - 1]);
      into.pixels.insert(into.pixels.end(), record + before_pixels, record + record_size);
    }
    if (size < wanted * record_size)
      source.refuse_cut(claim, done * record_size + size % record_size);
  }
  source.require_end(claim);
}

}  // namespace

void read_cifar(const std::filesystem::path& path,
                const CifarForm& form,
                std::int64_t count,
                CifarRecords& into) {
  append(ByteSource::open(path, form.name), form, count, into);
}

CifarRecords parse_cifar(std::span<const std::uint8_t> bytes,
                         const std::string& name,
                         const CifarForm& form,
                         std::int64_t count) {
  CifarRecords records;
  append(ByteSource::of(bytes, name, form.name), form, count, records);
  return records;
}

}  // namespace ddp::worker
