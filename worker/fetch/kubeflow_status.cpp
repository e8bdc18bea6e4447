#include "worker/fetch/kubeflow_status.h"

#include <curl/curl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/files/files.h"
#include "common/text/one_line.h"
#include "worker/fetch/run_status.h"

namespace ddp::worker {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kBetweenPosts{10};  // Kubeflow's own clients wait at least five
constexpr std::chrono::seconds kPostLimit{4};
constexpr std::size_t kLongestToken = 64 << 10;
constexpr std::size_t kLongestAnswer = 300;  // of an error, as shown
constexpr std::size_t kLongestLine = 1 << 20;

/// Takes the beginning of an answer, and drops the rest.
extern "C" std::size_t on_answer(char* bytes, std::size_t size, std::size_t count, void* context) {
  std::string& answer = *static_cast<std::string*>(context);
  answer.append(bytes, std::min(size * count, kLongestAnswer - answer.size()));
  return size * count;
}

class KubeflowServer {
 public:
  explicit KubeflowServer(const Environment& environment)
      : url_(find_variable(environment, "KUBEFLOW_TRAINER_SERVER_URL").value_or("")),
        authorities_(find_variable(environment, "KUBEFLOW_TRAINER_SERVER_CA_CERT").value_or("")),
        token_file_(find_variable(environment, "KUBEFLOW_TRAINER_SERVER_TOKEN").value_or("")) {}

  /// Blocks: kPostLimit at most. Returns why it failed; empty: it is told.
  std::string post(const std::string& body) {
    if (!handle_) return "libcurl cannot be started";
    // Read each time, because Kubernetes renews it.
    std::string token = read_file(token_file_, kLongestToken).value_or("");
    while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())) != 0)
      token.pop_back();
    const auto is_graphic = [](char c) { return c > ' ' && c <= '~'; };
    if (token.empty() || !std::ranges::all_of(token, is_graphic))
      return "no token in the file KUBEFLOW_TRAINER_SERVER_TOKEN=" + token_file_;
    curl_slist* list = curl_slist_append(nullptr, ("Authorization: Bearer " + token).c_str());
    list = curl_slist_append(list, "Content-Type: application/json");
    const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(list, curl_slist_free_all);
    std::array<char, CURL_ERROR_SIZE> reason{};
    std::string answer;
    CURL* const handle = handle_.get();
    curl_easy_setopt(handle, CURLOPT_URL, url_.c_str());
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "https");  // the token is a secret
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(handle, CURLOPT_TIMEOUT, static_cast<long>(kPostLimit.count()));
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_USERAGENT, "ddp-worker");
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, reason.data());
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &on_answer);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, static_cast<void*>(&answer));
    if (!authorities_.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, authorities_.c_str());
    const CURLcode code = curl_easy_perform(handle);
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, nullptr);
    if (code != CURLE_OK) return reason[0] != 0 ? reason.data() : curl_easy_strerror(code);
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300) return "";
    return "the server answers " + std::to_string(status) +
           (answer.empty() ? "" : ": " + one_line(answer));
  }

  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  std::string url_;
  std::string authorities_;
  std::string token_file_;
  std::unique_ptr<CURL, void (*)(CURL*)> handle_{curl_easy_init(), curl_easy_cleanup};
};

/// Reads stdin line by line, with a limit of time.
class Lines {
 public:
  /// Waits until there is a line, at most `limit`. Nothing: there is none yet, or no more.
  std::optional<std::string> next(std::chrono::milliseconds limit) {
    const SteadyClock::time_point end = SteadyClock::now() + limit;
    while (true) {
      if (const std::size_t size = text_.find('\n'); size != std::string::npos) {
        std::string line = text_.substr(0, size);
        text_.erase(0, size + 1);
        return line;
      }
      if (text_.size() > kLongestLine) text_.clear();  // no line of ours
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end - SteadyClock::now()).count();
      pollfd input{STDIN_FILENO, POLLIN, 0};
      if (is_over_ || ::poll(&input, 1, static_cast<int>(std::max<long>(left, 0))) != 1) return {};
      std::array<char, 65536> buffer;
      const ssize_t size = ::read(STDIN_FILENO, buffer.data(), buffer.size());
      if (size <= 0)
        is_over_ = true;
      else
        text_.append(buffer.data(), static_cast<std::size_t>(size));
    }
  }
  [[nodiscard]] bool is_over() const { return is_over_; }

 private:
  std::string text_;
  bool is_over_ = false;
};

}  // namespace

int tell_kubeflow(const Environment& environment) {
  KubeflowServer server(environment);
  RunStatus status;
  Lines lines;
  bool is_new = false;
  bool has_failed = false;
  SteadyClock::time_point next_post = SteadyClock::now();
  const auto post = [&] {
    const std::optional<std::string> body = status.body(std::chrono::system_clock::now());
    if (!is_new || !body) return;
    is_new = false;
    const std::string why = server.post(*body);
    next_post = SteadyClock::now() + kBetweenPosts;
    if (why.empty() || has_failed) return;
    has_failed = true;
    std::cerr << "ddp-worker: Kubeflow is not told the progress: " << why << " ("
              << one_line(server.url()) << "). Training goes on, and it is tried again.\n"
              << std::flush;
  };
  while (!lines.is_over()) {
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next_post - SteadyClock::now());
    const bool is_due = is_new && wait.count() <= 0;
    const std::optional<std::string> line =
        lines.next(is_due   ? std::chrono::milliseconds(0)
                   : is_new ? wait
                            : std::chrono::milliseconds(kBetweenPosts));
    if (line) {
      status.note(*line, SteadyClock::now());
      is_new = true;
    } else if (is_due) {
      post();
    }
  }
  post();
  return exit_code::kOk;
}

}  // namespace ddp::worker
