#include "launcher/plan/failure/own_error.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "common/text/contains.h"
#include "common/text/split.h"
#include "launcher/plan/failure/error_file.h"
#include "launcher/plan/failure/worker_report.h"

namespace ddp::launcher {
namespace {

// In messages of Gloo, NCCL, MPI and TCPStore, of sockets, and in frames of collectives.
constexpr std::array kOfPeers{"onnect",
                              "peer",
                              "roken pipe",
                              "ocket",
                              "imed out",
                              "imeout",
                              "gloo",
                              "Gloo",
                              "nccl",
                              "NCCL",
                              "MPI_",
                              "c10d",
                              "TCPStore",
                              "torch.distributed.Dist",
                              "tensorpipe",
                              "ProcessGroup"};

/// Whether torch has logged this line: "[W1129 12:00:00.1 File.cpp:12] Warning: ...". The process
/// groups write some when a process ends for any reason.
bool is_logged(std::string_view line) {
  return contains(line, ".cpp:") && (contains(line, "[W") || contains(line, "[I"));
}

}  // namespace

bool raised_own_error(const WorkerReport& worker) {
  std::vector<std::string> lines = worker.last_lines;
  if (const auto error = read_error(worker.error_text)) {
    const std::string text = to_text(*error);
    for (const std::string_view line : split_lines(text))
      lines.emplace_back(line);
  }
  const auto first = std::ranges::find_if(
      lines, [](const std::string& line) { return contains(line, "  File \""); });
  const auto tells_of_peer = [](const std::string& line) {
    return !is_logged(line) &&
           std::ranges::any_of(kOfPeers, [&](const char* word) { return contains(line, word); });
  };
  return first != lines.end() && std::none_of(first, lines.end(), tells_of_peer);
}

}  // namespace ddp::launcher
