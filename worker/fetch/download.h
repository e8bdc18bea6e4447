// Downloads one file by HTTP, completely or not at all. Wraps libcurl.
// Promises: the file is called NAME.part until its size and digest are right; an interrupted
// download continues where it stopped, in this run or a later one; a server that stalls,
// disconnects, lies about lengths, sends something else or ignores ranges leads to one error after
// a bounded number of tries.
// Trap: status 200 does not mean success. Proxies and portals send their own pages with it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "worker/fetch/published_sets.h"

namespace ddp::worker {

struct DownloadRequest {
  std::string url;
  std::filesystem::path target;
  PublishedFile file;  // what the download must be
  std::chrono::milliseconds stall_limit = std::chrono::seconds(30);
  std::int64_t min_rate = 0;  // bytes a second, on average over each stall_limit; 0: no limit
  /// Called now and then with the number of bytes that have arrived.
  std::function<void(std::uint64_t done)> progress;
  /// Called with one line about a try that failed, before the next one.
  std::function<void(const std::string& line)> note;
};

/// Blocks: as long as bytes arrive. A transfer that gets no byte for stall_limit, or is
/// disconnected, is tried again, at most three times without new bytes. Below min_rate for four
/// stall limits in a row, it gives up.
/// Errors: SystemError with the address and what the server did, or when the disk is full;
/// NAME.part stays if it can be continued. UsageError if the text is not an address.
void download(const DownloadRequest& request);

}  // namespace ddp::worker
