// Reads what a worker left in its TORCHELASTIC_ERROR_FILE. Two forms exist, and files may be
// broken; none of them may cost the report.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

struct WorkerError {
  std::string message;    // "ValueError: text"
  std::string callstack;  // may be empty
  bool operator==(const WorkerError&) const = default;
};

/// Reads torchelastic's nested form or its flat form. Of other text the first 4 KiB are the
/// message. Errors: nothing for an empty text.
std::optional<WorkerError> read_error(std::string_view text);

/// The text to show: the call stack if it ends with the message, as it usually does; else both.
/// Without a final newline.
std::string to_text(const WorkerError& error);

/// The last lines of a worker's stderr, without the exception that its error file holds, too.
std::vector<std::string> without_error(std::vector<std::string> lines, const WorkerError& error);

/// Adds `message.errorCode` for an outer launcher. Flat and broken texts are returned unchanged.
std::string with_error_code(std::string_view text, int exit_code);

}  // namespace ddp::launcher
