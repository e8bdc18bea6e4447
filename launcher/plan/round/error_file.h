// What a worker left in its TORCHELASTIC_ERROR_FILE. Two forms exist, and broken files: none of
// them may cost the report.
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

/// torchelastic's nested form, its flat form, or, when it is neither, the first 4 KiB as the
/// message. Errors: nothing for an empty text.
std::optional<WorkerError> read_error(std::string_view text);

/// What to show of it: the call stack, which as a rule ends with the message; else one after the
/// other. Lines without the last newline.
std::string to_text(const WorkerError& error);

/// The last lines of a worker's stderr without the exception that its error file tells too.
std::vector<std::string> without_error(std::vector<std::string> lines, const WorkerError& error);

/// The same object with `message.errorCode` added, for the launcher above us; flat and broken texts
/// are returned unchanged.
std::string with_error_code(std::string_view text, int exit_code);

}  // namespace ddp::launcher
