// The web page of a job, on node 0: samples the job once a second, keeps its curves, and answers
// browsers and Prometheus (net/http_server). It needs no data beyond the agent's, and renders only
// what is asked for.
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
  using TakeSnapshot = std::function<JobView()>;
  static constexpr std::chrono::seconds kPause{1};           // between two samples
  static constexpr std::chrono::seconds kViewerTimeout{60};  // since the last request

  /// Listens at *spec.web. All arguments outlive it. Errors: SystemError, 2 when the port is taken.
  WebPage(asio::io_context& io, const JobSpec& spec, TakeSnapshot take_snapshot);

  void start();
  /// Shows browsers how the job has ended.
  void close(const EndJob& end);

  /// Whether somebody has the page open, or asked within kViewerTimeout.
  [[nodiscard]] bool has_viewer() const;

  /// For people. Precondition: start() was called.
  [[nodiscard]] std::string url() const;

 private:
  asio::awaitable<void> check_periodically();
  void take_sample();
  HttpResponse answer(const WebRequest& request, const Peer& peer);
  const SharedText& text_of(WebPart part);
  const PageParts& parts();
  void publish();
  HttpResponse begin_stream();

  const JobSpec& spec_;
  const TakeSnapshot take_snapshot_;
  HttpServer server_;
  asio::steady_timer timer_;
  const std::string policy_;
  JobHistory history_;
  JobView job_;                      // the newest sample
  std::array<SharedText, 4> texts_;  // by WebPart, of that sample; null: not asked for yet
  std::optional<PageParts> parts_;   // of that sample
  PageParts published_;
  std::optional<Clock::time_point> asked_at_;  // last request for page or status
  bool is_closed_ = false;
};

}  // namespace ddp::launcher
