#include "worker/save/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <boost/crc.hpp>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstring>
#include <protozero/pbf_writer.hpp>
#include <vector>

#include "common/error.h"

namespace ddp::worker {
namespace {

// Field numbers of event.proto and summary.proto.
namespace event_field {
constexpr protozero::pbf_tag_type kWallTime = 1;
constexpr protozero::pbf_tag_type kStep = 2;
constexpr protozero::pbf_tag_type kFileVersion = 3;
constexpr protozero::pbf_tag_type kSummary = 5;
constexpr protozero::pbf_tag_type kSessionLog = 7;
}  // namespace event_field
namespace summary_field {
constexpr protozero::pbf_tag_type kValue = 1;
constexpr protozero::pbf_tag_type kTag = 1;
constexpr protozero::pbf_tag_type kSimpleValue = 2;
constexpr protozero::pbf_tag_type kTensor = 8;
constexpr protozero::pbf_tag_type kMetadata = 9;
constexpr protozero::pbf_tag_type kPluginData = 1;  // of the metadata
constexpr protozero::pbf_tag_type kPluginName = 1;  // of that
}  // namespace summary_field
// Of tensor.proto and tensor_shape.proto.
namespace tensor_field {
constexpr protozero::pbf_tag_type kType = 1;
constexpr std::int32_t kString = 7;
constexpr protozero::pbf_tag_type kShape = 2;
constexpr protozero::pbf_tag_type kDim = 2;
constexpr protozero::pbf_tag_type kSize = 1;
constexpr protozero::pbf_tag_type kTexts = 8;
}  // namespace tensor_field
namespace session_field {
constexpr protozero::pbf_tag_type kStatus = 1;
constexpr std::int32_t kStart = 1;
}  // namespace session_field

constexpr std::string_view kPrefix = "events.out.tfevents.";

double wall_time() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count();
}

// Readers take the files of a directory in the order of their names, so ours must come last even
// when a run goes on within the same second, or after the clock was set back.
std::int64_t next_time(const OwnedDir& directory) {
  std::int64_t time = static_cast<std::int64_t>(wall_time());
  for (const std::string& name : directory.names()) {
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t other = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), other);
    time = std::max(time, other + 1);
  }
  return time;
}

std::string new_name(const OwnedDir& directory) {
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0')
    std::strcpy(host.data(), "localhost");
  return std::string(kPrefix) + std::to_string(next_time(directory)) + "." + host.data() + "." +
         std::to_string(::getpid());
}

// CRC-32C, rotated and shifted so that checksums of checksums stay good. Source: TensorFlow's
// lib/hash/crc32c.h.
std::uint32_t masked_checksum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(crc.checksum(), 15) + 0xa282ead8U;
}

template <typename Integer>
void append_little_endian(std::string& text, Integer value) {
  for (std::size_t i = 0; i < sizeof(value); ++i)
    text += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
}

}  // namespace

std::string frame_record(std::string_view payload) {
  std::string record;
  append_little_endian(record, std::uint64_t{payload.size()});
  append_little_endian(record, masked_checksum(record));
  record += payload;
  append_little_endian(record, masked_checksum(payload));
  return record;
}

EventFile::EventFile(const OwnedDir& directory, std::int64_t resumed_step)
    : file_(directory, new_name(directory), OutputFile::Mode::create) {
  std::string version;
  protozero::pbf_writer first(version);
  first.add_double(event_field::kWallTime, wall_time());
  first.add_string(event_field::kFileVersion, "brain.Event:2");
  append(version);

  std::string start;
  {
    protozero::pbf_writer event(start);
    event.add_double(event_field::kWallTime, wall_time());
    event.add_int64(event_field::kStep, resumed_step + 1);
    protozero::pbf_writer session(event, event_field::kSessionLog);
    session.add_enum(session_field::kStatus, session_field::kStart);
  }
  append(start);
}

void EventFile::write(std::int64_t step, std::span<const Scalar> scalars) {
  std::string bytes;
  {
    protozero::pbf_writer event(bytes);
    event.add_double(event_field::kWallTime, wall_time());
    event.add_int64(event_field::kStep, step);
    protozero::pbf_writer summary(event, event_field::kSummary);
    for (const Scalar& scalar : scalars) {
      protozero::pbf_writer value(summary, summary_field::kValue);
      value.add_string(summary_field::kTag, scalar.tag.data(), scalar.tag.size());
      value.add_float(summary_field::kSimpleValue, static_cast<float>(scalar.value));
    }
  }
  append(bytes);
}

void EventFile::write_text(std::int64_t step, const std::string& tag, const std::string& text) {
  std::string bytes;
  {
    protozero::pbf_writer event(bytes);
    event.add_double(event_field::kWallTime, wall_time());
    event.add_int64(event_field::kStep, step);
    protozero::pbf_writer summary(event, event_field::kSummary);
    protozero::pbf_writer value(summary, summary_field::kValue);
    value.add_string(summary_field::kTag, tag);
    {
      protozero::pbf_writer tensor(value, summary_field::kTensor);
      tensor.add_enum(tensor_field::kType, tensor_field::kString);
      {
        protozero::pbf_writer shape(tensor, tensor_field::kShape);
        protozero::pbf_writer dim(shape, tensor_field::kDim);
        dim.add_int64(tensor_field::kSize, 1);
      }
      tensor.add_string(tensor_field::kTexts, text);
    }
    protozero::pbf_writer metadata(value, summary_field::kMetadata);
    protozero::pbf_writer plugin(metadata, summary_field::kPluginData);
    plugin.add_string(summary_field::kPluginName, "text");
  }
  append(bytes);
}

void EventFile::append(std::string_view event) {
  file_.write(frame_record(event));
}

}  // namespace ddp::worker
