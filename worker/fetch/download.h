// One file by HTTP, to the end or not at all; the wrapper of libcurl.
// Promises: the file gets its name only when its size and digest are right, until then it is
// NAME.part; what was cut off goes on where it stopped, in this run and in a later one; a server
// that falls silent, cuts, lies about lengths, sends something else or ignores ranges ends in one
// error after a bounded number of tries.
// Trap: an answer of 200 is not a success. Proxies and portals answer so with pages of their own.
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
  PublishedFile file;  // what it must be
  std::chrono::milliseconds stall_limit = std::chrono::seconds(30);
  std::int64_t min_rate = 0;  // bytes a second, on average over each stall_limit; 0: any
  /// Called now and then with the bytes that are there.
  std::function<void(std::uint64_t done)> progress;
  /// One line about a try that failed, before the next one.
  std::function<void(const std::string& line)> note;
};

/// Blocks: as long as bytes come; without one for stall_limit, or cut off, at most three tries more
/// that bring nothing new; below min_rate for four stall limits in a row, by however many tries.
/// Errors: SystemError with the address and what the server did, or that the disk is full; a part
/// that can be continued stays. UsageError for text that is not an address.
void download(const DownloadRequest& request);

}  // namespace ddp::worker
