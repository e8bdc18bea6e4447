// TensorBoard's event file, written directly: protobuf by protozero, framing and masked CRC-32C by
// our own code.
// Source: tensorboard/compat/proto/event.proto, summary.proto and TensorFlow's record_writer.cc
// (the framing).
// Trap: do not use libprotobuf here, because libtorch_cpu exports a copy of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "worker/save/output_file.h"

namespace ddp::worker {

struct Scalar {
  std::string tag;   // "loss/train"
  double value = 0;  // written as float, as TensorBoard keeps it
};

class EventFile {
 public:
  /// Makes a new events.out.tfevents.* in `directory`, whose name sorts after existing ones, and
  /// writes its first records: the version, and a START that makes TensorBoard drop the points
  /// after step `resumed_step`, which this run will write again.
  /// Errors: SystemError.
  EventFile(const OwnedDir& directory, std::int64_t resumed_step);

  /// Writes one record with all scalars of a step; readers see it at once.
  /// Errors: SystemError.
  void write(std::int64_t step, std::span<const Scalar> scalars);

  /// Writes a text in Markdown, for TensorBoard's page of texts. Errors: SystemError.
  void write_text(std::int64_t step, const std::string& tag, const std::string& text);

  /// Writes an image, for the page of images. `png` is a whole PNG file; anything else is ignored.
  /// Errors: SystemError.
  void write_image(std::int64_t step, const std::string& tag, std::string_view png);

  /// Writes the values with which this run was started, for the page of hyperparameters. A text
  /// that is a number, `true` or `false` is shown as such. Errors: SystemError.
  void write_hyperparameters(std::int64_t step, const std::map<std::string, std::string>& values);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }

 private:
  void append(std::string_view event);

  OutputFile file_;
};

/// A record as it is in the file: length, its checksum, payload, its checksum.
std::string frame_record(std::string_view payload);

}  // namespace ddp::worker
