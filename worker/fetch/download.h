// Downloads one file by HTTP, completely or not at all; the wrapper of libcurl.
// Promises: the file gets its name only when its size and digest are right, until then it is
// NAME.part; a download that was cut off goes on where it stopped, in this run or a later one; a
// server that falls silent, cuts, lies about lengths, sends something else or ignores ranges ends
// in one error after a bounded number of tries.
// Trap: an answer of 200 is not a success. Proxies and portals send pages of their own with it.
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
  /// Called now and then with the number of bytes that have arrived.
  std::function<void(std::uint64_t done)> progress;
  /// Called with one line about a try that failed, before the next one.
  std::function<void(const std::string& line)> note;
};

/// Blocks: as long as bytes arrive. Without a byte for stall_limit, or when cut off, it makes at
/// most three more tries that bring nothing new; below min_rate it ends after four stall limits in
/// a row, however many tries they take.
/// Errors: SystemError with the address and what the server did, or that the disk is full; a part
/// that can be continued stays. UsageError for text that is not an address.
void download(const DownloadRequest& request);

}  // namespace ddp::worker
