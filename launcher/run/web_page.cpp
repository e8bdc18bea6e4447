#include "launcher/run/web_page.h"

#include <sodium.h>
#include <unistd.h>

#include <utility>

#include "common/error.h"
#include "launcher/net/auth.h"
#include "launcher/plan/web/live_page.h"
#include "launcher/plan/web/prometheus.h"
#include "launcher/plan/web/status_json.h"

namespace ddp::launcher {
namespace {

Listeners listen(asio::io_context& io, const WebAddress& where) {
  ListenAddresses addresses;
  if (!where.address.empty()) addresses.basic = {where.address};
  return listen_at(io, addresses, where.port, kPagePort);
}

/// The hash of a script, as a Content-Security-Policy names it.
std::string hash_of(std::string_view script) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash{};
  crypto_hash_sha256(
      hash.data(), reinterpret_cast<const unsigned char*>(script.data()), script.size());
  std::array<char,
             sodium_base64_ENCODED_LEN(crypto_hash_sha256_BYTES, sodium_base64_VARIANT_ORIGINAL)>
      text{};
  sodium_bin2base64(
      text.data(), text.size(), hash.data(), hash.size(), sodium_base64_VARIANT_ORIGINAL);
  return std::string("'sha256-") + text.data() + "'";
}

/// Allows the page's own script alone to run, and to connect to this server alone.
std::string make_policy() {
  return "Content-Security-Policy: default-src 'none'; script-src " + hash_of(live_page_script()) +
         "; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
         "form-action 'none'; frame-ancestors 'none'\r\n";
}

SharedText share(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

std::string title_of(const JobView& job) {
  return job.program + " on " + job.host;
}

}  // namespace

WebPage::WebPage(asio::io_context& io, const JobSpec& spec, TakeSnapshot take_snapshot)
    : spec_(spec),
      take_snapshot_(std::move(take_snapshot)),
      server_(
          io,
          listen(io, *spec.web),
          kPagePartIds.size(),
          [this](const WebRequest& request, const Peer& peer) { return answer(request, peer); }),
      timer_(io),
      policy_(make_policy()) {}

std::string WebPage::url() const {
  return page_url(*spec_.web, server_.port(), job_.host, spec_.facts.loopback);
}

void WebPage::start() {
  take_sample();
  server_.start();
  asio::co_spawn(timer_.get_executor(), check_periodically(), rethrow);
}

bool WebPage::has_viewer() const {
  return server_.has_streams() || (asked_at_ && Clock::now() - *asked_at_ < kViewerTimeout);
}

void WebPage::close(const EndJob& end) {
  if (std::exchange(is_closed_, true)) return;
  timer_.cancel();
  // All else stays as in the newest sample, as the nodes are gone by now.
  job_.state = JobView::Shown::over;
  job_.exit_code = end.exit_code;
  job_.was_stopped = end.state == RunState::stopped;
  job_.report = end.report;
  for (JobView::Rank& rank : job_.ranks)
    rank.ended = true;
  parts_.reset();
  std::string last;
  for (std::size_t i = 0; i < parts().size(); ++i)
    last += server_sent_event(kPagePartIds[i], parts()[i]);
  server_.close(last + server_sent_event("over", ""));
}

asio::awaitable<void> WebPage::check_periodically() {
  while (!is_closed_) {
    timer_.expires_after(kPause);
    co_await timer_.async_wait(kResult);
    if (is_closed_) break;
    take_sample();
    if (server_.has_streams()) publish();
  }
}

void WebPage::take_sample() {
  job_ = take_snapshot_();
  history_.note(job_);
  parts_.reset();
  texts_.fill(nullptr);
}

const PageParts& WebPage::parts() {
  if (!parts_) parts_ = page_parts(job_, history_);
  return *parts_;
}

/// Publishes the parts that have changed.
void WebPage::publish() {
  for (std::size_t i = 0; i < parts().size(); ++i) {
    if (parts()[i] == published_[i]) continue;
    published_[i] = parts()[i];
    server_.publish(i, share(server_sent_event(kPagePartIds[i], parts()[i])));
  }
}

HttpResponse WebPage::answer(const WebRequest& request, const Peer& peer) {
  // No user: this system does not show the owner of a connection; a warning was printed once.
  const bool is_user = peer.is_here && (!peer.user || *peer.user == ::geteuid() || *peer.user == 0);
  const auto check = [this](std::string_view text) {
    return !spec_.token.empty() && is_same_secret(text, spec_.token.text());
  };
  const WebDecision decision = decide(request, is_user, check);
  HttpResponse answer;
  answer.status = decision.status;
  if (decision.status == 401) answer.headers = "WWW-Authenticate: Bearer\r\n";
  if (decision.status == 405) answer.headers = "Allow: GET, HEAD\r\n";
  if (decision.status != 200) {
    answer.body = share(decision.text + "\n");
    return answer;
  }
  if (decision.part != WebPart::metrics) asked_at_ = Clock::now();
  if (decision.part == WebPart::events) return begin_stream();
  answer.body = text_of(decision.part);
  if (decision.part == WebPart::metrics) answer.type = kPrometheusType;
  if (decision.part == WebPart::status) answer.type = "application/json";
  if (decision.part == WebPart::page) {
    answer.type = "text/html; charset=utf-8";
    answer.headers = policy_;
  }
  return answer;
}

HttpResponse WebPage::begin_stream() {
  publish();  // the published parts may be old
  HttpResponse answer;
  answer.type = "text/event-stream";
  answer.is_stream = true;
  return answer;
}

/// Renders each sample once, however often it is asked for.
const SharedText& WebPage::text_of(WebPart part) {
  SharedText& text = texts_[static_cast<std::size_t>(part)];
  if (text) return text;
  if (part == WebPart::status) return text = share(status_json(job_));
  if (part == WebPart::metrics) return text = share(prometheus_text(job_));
  return text = share(live_page(title_of(job_), parts()));
}

}  // namespace ddp::launcher
