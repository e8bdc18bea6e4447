#include "worker/save/format/event_file.h"

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
#include "common/node/identity.h"

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
constexpr protozero::pbf_tag_type kImage = 4;
constexpr protozero::pbf_tag_type kTensor = 8;
constexpr protozero::pbf_tag_type kMetadata = 9;
constexpr protozero::pbf_tag_type kPluginData = 1;  // of the metadata
constexpr protozero::pbf_tag_type kPluginName = 1;  // in the plugin data
constexpr protozero::pbf_tag_type kPluginContent = 2;
}  // namespace summary_field
namespace image_field {
constexpr protozero::pbf_tag_type kHeight = 1;
constexpr protozero::pbf_tag_type kWidth = 2;
constexpr protozero::pbf_tag_type kColors = 3;
constexpr protozero::pbf_tag_type kBytes = 4;
}  // namespace image_field
// From the plugin's plugin_data.proto and api.proto, and from protobuf's struct.proto.
namespace hparams_field {
constexpr protozero::pbf_tag_type kSessionStart = 3;
constexpr protozero::pbf_tag_type kValues = 1;  // a map: key and value
constexpr protozero::pbf_tag_type kKey = 1;
constexpr protozero::pbf_tag_type kValue = 2;
constexpr protozero::pbf_tag_type kStartTime = 5;
constexpr protozero::pbf_tag_type kNumber = 2;
constexpr protozero::pbf_tag_type kText = 3;
constexpr protozero::pbf_tag_type kFlag = 4;
}  // namespace hparams_field
// From tensor.proto and tensor_shape.proto.
namespace tensor_field {
constexpr protozero::pbf_tag_type kType = 1;
constexpr std::int32_t kFloat = 1;
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

// Readers sort the files of a directory by name, so ours must come last even if a run resumes
// within the same second, or after the clock was set back.
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
  return std::string(kPrefix) + std::to_string(next_time(directory)) + "." + host_name() + "." +
         std::to_string(::getpid());
}

// CRC-32C, rotated and shifted so that the checksum of data that contain a checksum works too.
// Source: TensorFlow's lib/hash/crc32c.h.
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

/// An event with a summary that `fill` writes.
template <typename Fill>
std::string summary_event(std::int64_t step, const Fill& fill) {
  std::string bytes;
  protozero::pbf_writer event(bytes);
  event.add_double(event_field::kWallTime, wall_time());
  event.add_int64(event_field::kStep, step);
  protozero::pbf_writer summary(event, event_field::kSummary);
  fill(summary);
  summary.commit();
  return bytes;
}

/// Adds the type and the shape of a list.
void add_type(protozero::pbf_writer& tensor, std::int32_t type, std::int64_t size) {
  tensor.add_enum(tensor_field::kType, type);
  protozero::pbf_writer shape(tensor, tensor_field::kShape);
  protozero::pbf_writer dim(shape, tensor_field::kDim);
  dim.add_int64(tensor_field::kSize, size);
}

void add_plugin(protozero::pbf_writer& value, const std::string& name, const std::string& content) {
  protozero::pbf_writer metadata(value, summary_field::kMetadata);
  protozero::pbf_writer plugin(metadata, summary_field::kPluginData);
  plugin.add_string(summary_field::kPluginName, name);
  if (!content.empty()) plugin.add_bytes(summary_field::kPluginContent, content);
}

void add_value(protozero::pbf_writer& value, const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end) {
    value.add_double(hparams_field::kNumber, number);
  } else if (text == "true" || text == "false") {
    value.add_bool(hparams_field::kFlag, text == "true");
  } else {
    value.add_string(hparams_field::kText, text);
  }
}

std::int32_t big_endian(std::string_view bytes) {
  std::int32_t number = 0;
  for (const char byte : bytes)
    number = number << 8 | static_cast<unsigned char>(byte);
  return number;
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
  append(summary_event(step, [scalars](protozero::pbf_writer& summary) {
    for (const Scalar& scalar : scalars) {
      protozero::pbf_writer value(summary, summary_field::kValue);
      value.add_string(summary_field::kTag, scalar.tag.data(), scalar.tag.size());
      value.add_float(summary_field::kSimpleValue, static_cast<float>(scalar.value));
    }
  }));
}

void EventFile::write_text(std::int64_t step, const std::string& tag, const std::string& text) {
  append(summary_event(step, [&](protozero::pbf_writer& summary) {
    protozero::pbf_writer value(summary, summary_field::kValue);
    value.add_string(summary_field::kTag, tag);
    {
      protozero::pbf_writer tensor(value, summary_field::kTensor);
      add_type(tensor, tensor_field::kString, 1);
      tensor.add_string(tensor_field::kTexts, text);
    }
    add_plugin(value, "text", "");
  }));
}

void EventFile::write_image(std::int64_t step, const std::string& tag, std::string_view png) {
  constexpr std::size_t kHead = 24;  // signature, then the size in the first chunk (PNG, 11.2.2)
  if (png.size() < kHead || !png.starts_with("\x89PNG")) return;
  append(summary_event(step, [&](protozero::pbf_writer& summary) {
    protozero::pbf_writer value(summary, summary_field::kValue);
    value.add_string(summary_field::kTag, tag);
    protozero::pbf_writer image(value, summary_field::kImage);
    image.add_int32(image_field::kHeight, big_endian(png.substr(20, 4)));
    image.add_int32(image_field::kWidth, big_endian(png.substr(16, 4)));
    image.add_int32(image_field::kColors, 3);
    image.add_string(image_field::kBytes, png.data(), png.size());
  }));
}

void EventFile::write_hyperparameters(std::int64_t step,
                                      const std::map<std::string, std::string>& values) {
  std::string content;
  {
    protozero::pbf_writer data(content);
    protozero::pbf_writer start(data, hparams_field::kSessionStart);
    for (const auto& [name, text] : values) {
      protozero::pbf_writer entry(start, hparams_field::kValues);
      entry.add_string(hparams_field::kKey, name);
      protozero::pbf_writer value(entry, hparams_field::kValue);
      add_value(value, text);
    }
    start.add_double(hparams_field::kStartTime, wall_time());
  }
  append(summary_event(step, [&](protozero::pbf_writer& summary) {
    protozero::pbf_writer value(summary, summary_field::kValue);
    value.add_string(summary_field::kTag, "_hparams_/session_start_info");
    {
      // Readers would drop a value that has metadata alone.
      protozero::pbf_writer tensor(value, summary_field::kTensor);
      add_type(tensor, tensor_field::kFloat, 0);
    }
    add_plugin(value, "hparams", content);
  }));
}

void EventFile::append(std::string_view event) {
  file_.write(frame_record(event));
}

}  // namespace ddp::worker
