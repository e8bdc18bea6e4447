// The page of a job, on node 0: looks at the job once a second, remembers its curves, and answers
// browsers and Prometheus (net/http_server). It takes what the agent knows anyhow, and what nobody
// looks at is not made.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "launcher/net/http_server.h"
#include "launcher/os/asio.h"
#include "launcher/plan/round/messages.h"
#include "launcher/plan/start/job_spec.h"
#include "launcher/plan/web/job_history.h"
#include "launcher/plan/web/job_view.h"
#include "launcher/plan/web/page_parts.h"

namespace ddp::launcher {

class WebPage {
 public:
  using Look = std::function<JobView()>;
  static constexpr std::chrono::seconds kPause{1};           // between two looks
  static constexpr std::chrono::seconds kViewerTimeout{60};  // who asked then may ask again

  /// Listens where spec.web says, which is there. All arguments outlive it. Errors: SystemError, 2
  /// when the port is taken.
  WebPage(asio::io_context& io, const JobSpec& spec, Look probe);

  void start();
  /// Browsers are told how the job has ended.
  void close(const EndJob& end);

  /// Somebody looks at it, or has done so lately.
  [[nodiscard]] bool is_watched() const;

  /// For people. Precondition: it was started.
  [[nodiscard]] std::string url() const;

 private:
  asio::awaitable<void> check_periodically();
  void probe();
  HttpAnswer answer(const WebRequest& request, const Peer& peer);
  const SharedText& text_of(WebPart part);
  const PageParts& parts();
  void publish();
  HttpAnswer begin_stream();

  const JobSpec& spec_;
  const Look look_;
  HttpServer server_;
  asio::steady_timer timer_;
  const std::string policy_;
  JobHistory history_;
  JobView job_;                      // as of the newest look
  std::array<SharedText, 4> texts_;  // by WebPart, of that look; null: nobody has asked for it
  std::optional<PageParts> parts_;   // likewise
  PageParts published_;
  std::optional<Clock::time_point> asked_at_;  // when the page or the status was last asked for
  bool is_closed_ = false;
};

}  // namespace ddp::launcher
