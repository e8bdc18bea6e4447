// torchelastic's error file: what a launcher shows as the cause of a failure.
#pragma once

#include <exception>
#include <string>

namespace ddp::worker {

/// Writes `{"message": {"message": ..., "extraInfo": {"py_callstack": ..., "timestamp": "...",
/// "rank": ...}}}`, the form that torchrun reads, with the rank added (-1: none yet). Does nothing
/// if `path` is empty. Errors: none; a launcher that finds no file shows the exit code.
void write_error_file(const std::string& path, int rank, const std::exception& error);

}  // namespace ddp::worker
