// torchelastic's error file, from which a launcher reads the cause of a failure.
#pragma once

#include <exception>
#include <string>

namespace ddp::worker {

/// Writes `{"message": {"message": ..., "extraInfo": {"py_callstack": ..., "timestamp": "...",
/// "rank": ...}}}`, the form that torchrun reads, plus the rank (-1: not known yet). Does nothing
/// if `path` is empty. Errors: none; a launcher that finds no file shows the exit code.
void write_error_file(const std::string& path, int rank, const std::exception& error);

}  // namespace ddp::worker
