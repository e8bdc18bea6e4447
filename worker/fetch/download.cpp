#include "worker/fetch/download.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "common/error.h"
#include "common/text/units.h"
#include "worker/fetch/sha256.h"
#include "worker/save/output_file.h"

namespace ddp::worker {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kMoreTries = 3;  // without new bytes

/// How one transfer ended.
enum class End {
  complete,    // the server has sent what it wanted to
  again,       // another try may go on
  from_start,  // the server does not continue at our offset
  never,       // the server will not give this file
};

struct Outcome {
  End end = End::complete;
  std::string what;  // what happened
};

/// Checks the minimum rate over spans of the stall limit, through all tries: otherwise a server
/// that sends a byte now and then, or one per connection, would never be given up.
class Pace {
 public:
  explicit Pace(const DownloadRequest& request) : request_(request) {}

  void count(std::size_t bytes) { received_ += bytes; }

  /// True once for each span that ends now and was too slow.
  bool is_too_slow(Clock::time_point now) {
    if (request_.min_rate == 0 || now - begin_ < request_.stall_limit) return false;
    const std::chrono::duration<double> span = now - begin_;
    const bool is_slow =
        static_cast<double>(received_) < static_cast<double>(request_.min_rate) * span.count();
    if (is_slow)
      what_ = received_ == 0 ? "no byte came for " + format_duration(request_.stall_limit)
                             : "only " + std::to_string(received_) + " bytes came in " +
                                   format_duration(request_.stall_limit) + ", and --min-rate is " +
                                   format_bytes(request_.min_rate) + " a second";
    slow_spans_ = is_slow ? slow_spans_ + 1 : 0;
    begin_ = now;
    received_ = 0;
    return is_slow;
  }

  [[nodiscard]] int slow_spans() const { return slow_spans_; }  // in a row
  [[nodiscard]] const std::string& what() const { return what_; }

 private:
  const DownloadRequest& request_;
  Clock::time_point begin_ = Clock::now();
  std::uint64_t received_ = 0;
  int slow_spans_ = 0;
  std::string what_{};
};

/// What libcurl's callbacks share with the transfer.
struct Transfer {
  const DownloadRequest& request;
  PublishedFile& file;  // its size becomes exact when the server tells it
  OutputFile& part;
  Pace& pace;
  CURL* handle;
  std::uint64_t begin;  // where the part ended before
  std::uint64_t size = begin;
  Clock::time_point last_byte = Clock::now();
  std::string refusal{};     // why the server's bytes cannot be the file
  bool has_stalled = false;  // no byte for the limit
  bool is_too_slow = false;
  std::exception_ptr error{};  // an error on our own side
};

/// Why the bytes that arrive cannot be the file, checked before `more` of them are written; empty:
/// they can.
std::string refuse_length(Transfer& transfer, std::size_t more) {
  PublishedFile& file = transfer.file;
  curl_off_t length = -1;  // unknown
  curl_easy_getinfo(transfer.handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  const std::uint64_t offered = transfer.begin + static_cast<std::uint64_t>(length);
  if (transfer.size == transfer.begin && length >= 0) {
    if (!file.has_size(offered)) {
      return "the server offers " + std::to_string(offered) + " bytes, the published file has " +
             std::to_string(file.size);
    }
    file.size = offered;
    file.size_tolerance = 0;
  }
  if (transfer.size + more > file.size + file.size_tolerance)
    return "the server sends more than the " + std::to_string(file.size) +
           " bytes of the published file";
  return {};
}

extern "C" std::size_t on_bytes(char* bytes, std::size_t, std::size_t count, void* context) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  transfer.refusal = refuse_length(transfer, count);
  if (!transfer.refusal.empty()) return 0;
  try {
    transfer.part.write(std::as_bytes(std::span(bytes, count)));
  } catch (const SystemError&) {
    transfer.error = std::current_exception();  // libcurl is C: rethrown after the transfer
    return 0;
  }
  transfer.size += count;
  transfer.pace.count(count);
  transfer.last_byte = Clock::now();
  transfer.request.progress(transfer.size);
  return count;
}

// Called at least once a second, also while names are looked up and connections are made.
extern "C" int on_time(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  Transfer& transfer = *static_cast<Transfer*>(context);
  const Clock::time_point now = Clock::now();
  transfer.has_stalled = now - transfer.last_byte >= transfer.request.stall_limit;
  transfer.is_too_slow = transfer.pace.is_too_slow(now);
  return transfer.has_stalled || transfer.is_too_slow ? 1 : 0;
}

/// Errors: SystemError.
void set_up(CURL* handle, Transfer& transfer, std::array<char, CURL_ERROR_SIZE>& reason) {
  const auto set = [&](CURLoption option, auto value) {
    const CURLcode code = curl_easy_setopt(handle, option, value);
    if (code != CURLE_OK) {
      throw SystemError("cannot prepare the transfer of " + transfer.request.url + ": " +
                        curl_easy_strerror(code));
    }
  };
  set(CURLOPT_URL, transfer.request.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "ddp-worker");
  set(CURLOPT_ERRORBUFFER, reason.data());
  set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(transfer.size));
  set(CURLOPT_WRITEFUNCTION, &on_bytes);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &on_time);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
}

/// The outcome of an error that libcurl reports. `reason` is its own text for the error.
Outcome judge(CURLcode code, long status, const std::string& reason) {
  switch (code) {
    // libcurl uses this code for a header, or a line of it, that is longer than it accepts.
    case CURLE_OUT_OF_MEMORY:
      return {End::never, "the server's header is too large"};
    case CURLE_RANGE_ERROR:
      return {End::from_start, "the server does not send parts of a file"};
    case CURLE_HTTP_RETURNED_ERROR: {
      const bool may_pass = status >= 500 || status == 408 || status == 429;
      return {may_pass ? End::again : End::never, "the server answers " + std::to_string(status)};
    }
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      return {End::again, reason};
    default:
      return {End::never, reason};
  }
}

/// One try, starting where the part ends. Errors: SystemError for the disk; UsageError.
Outcome transfer_once(const DownloadRequest& request,
                      PublishedFile& file,
                      OutputFile& part,
                      Pace& pace,
                      std::uint64_t& size) {
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), curl_easy_cleanup);
  if (!handle) throw SystemError("cannot start libcurl");
  std::array<char, CURL_ERROR_SIZE> reason{};
  Transfer transfer{.request = request,
                    .file = file,
                    .part = part,
                    .pace = pace,
                    .handle = handle.get(),
                    .begin = size};
  set_up(handle.get(), transfer, reason);
  const CURLcode code = curl_easy_perform(handle.get());
  size = transfer.size;
  if (transfer.error) std::rethrow_exception(transfer.error);
  if (!transfer.refusal.empty()) return {End::never, transfer.refusal};
  if (transfer.has_stalled)
    return {End::again, "no byte came for " + format_duration(request.stall_limit)};
  if (transfer.is_too_slow) return {End::again, pace.what()};
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  // Before any answer the bad address is the user's, after one it is that of a redirection.
  if (code == CURLE_URL_MALFORMAT && status == 0)
    throw UsageError(request.url + ": not an address. Give --from as http://HOST/PATH.");
  if (code != CURLE_OK)
    return judge(code, status, reason[0] != 0 ? reason.data() : curl_easy_strerror(code));
  // libcurl does not count "Range not satisfiable" as an error: it takes the file for complete.
  if (size > 0 && size == transfer.begin)
    return {End::from_start, "the server does not go on at byte " + std::to_string(size)};
  if (size + file.size_tolerance < file.size)
    return {End::again, "the server ended after " + std::to_string(size) + " bytes"};
  return {End::complete, ""};
}

class Download {
 public:
  explicit Download(const DownloadRequest& request)
      : request_(request), file_(request.file), part_(request.target.string() + ".part") {}

  void run() {
    if (fs::is_regular_file(fs::symlink_status(part_))) size_ = fs::file_size(part_);
    if (size_ == 0 || size_ > file_.size + file_.size_tolerance) start_over();
    farthest_ = size_;
    while (!is_whole())
      get_rest();
    OutputFile(part_, OutputFile::Mode::append).sync();
    fs::rename(part_, request_.target);
  }

 private:
  /// False when more bytes are needed. Errors: SystemError when a file that came in one piece is
  /// not the published one.
  bool is_whole() {
    if (size_ + file_.size_tolerance < file_.size) return false;
    const std::string found = sha256_of(part_);
    if (found.starts_with(file_.sha256)) return true;
    const bool may_be_mixed = !is_of_one_piece_ && !has_restarted_;
    start_over();
    // The file may have changed since its first part was fetched.
    has_restarted_ = true;
    if (may_be_mixed) return false;
    fail("what came has the size of the published file, but not its contents (SHA-256 " + found +
         ", expected " + file_.sha256 + "). It was removed");
  }

  /// Tries until a try brings new bytes, or no tries are left. Bytes before `farthest_` are not
  /// new.
  void get_rest() {
    std::string what;
    Pace pace(request_);
    for (int tries = 0; tries <= kMoreTries && pace.slow_spans() <= kMoreTries;) {
      if (tries > 0) request_.note(what + "; trying again");
      OutputFile part(part_, OutputFile::Mode::append);
      const Outcome outcome = try_once(part, pace);
      what = outcome.what;
      if (outcome.end == End::complete) return;
      if (outcome.end == End::never) fail(what);
      // Also needed when each try is shorter than a span.
      if (pace.is_too_slow(Clock::now())) what = pace.what();
      const bool is_new = size_ > farthest_;
      farthest_ = std::max(farthest_, size_);
      // A file that is continued does not come in one piece any more.
      if (outcome.end == End::from_start)
        start_over();
      else if (size_ > 0)
        is_of_one_piece_ = false;
      tries = is_new ? 1 : tries + 1;
    }
    fail(what + " (" + std::to_string(kMoreTries + 1) + " tries)");
  }

  Outcome try_once(OutputFile& part, Pace& pace) {
    try {
      return transfer_once(request_, file_, part, pace, size_);
    } catch (const UsageError&) {
      if (size_ == 0) start_over();
      throw;
    } catch (const SystemError& error) {
      fail(std::string(error.what()) + ". Make room for " +
           format_bytes(static_cast<std::int64_t>(file_.size - std::min(size_, file_.size))) +
           " more, or take another directory");
    }
  }

  /// Errors: SystemError when something that is not a file has the name.
  void start_over() {
    std::error_code error;
    fs::remove(part_, error);
    if (error) throw SystemError("cannot remove " + part_.string() + ": " + error.message());
    size_ = 0;
    is_of_one_piece_ = true;
  }

  [[noreturn]] void fail(const std::string& what) {
    const bool is_kept = size_ > 0 && fs::exists(part_);
    if (!is_kept) start_over();
    throw SystemError("cannot get " + request_.url + ": " + what + "." +
                      (is_kept ? " What has come is kept; the same command goes on with it."
                               : " Another server: --from URL. What goes where: --dry-run."));
  }

  const DownloadRequest& request_;
  PublishedFile file_;
  fs::path part_;
  std::uint64_t size_ = 0;        // of the part
  std::uint64_t farthest_ = 0;    // largest size that the part has had
  bool is_of_one_piece_ = false;  // the whole part came by one transfer of this run
  bool has_restarted_ = false;    // because the pieces did not make the file
};

}  // namespace

void download(const DownloadRequest& request) {
  Download(request).run();
}

}  // namespace ddp::worker
