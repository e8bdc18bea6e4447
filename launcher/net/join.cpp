#include "launcher/net/join.h"

#include <algorithm>
#include <boost/asio/write.hpp>
#include <deque>
#include <utility>
#include <variant>
#include <vector>

#include "common/error.h"
#include "common/text/join_words.h"
#include "launcher/net/auth.h"
#include "launcher/net/frame_io.h"
#include "launcher/net/handshake_server.h"
#include "launcher/net/resolver.h"
#include "launcher/os/inbox.h"
#include "launcher/os/tcp_facts.h"
#include "launcher/plan/endpoint_text.h"
#include "launcher/plan/wire/frames.h"
#include "launcher/plan/wire/message_codec.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kConnect = 1500ms;    // for all addresses of a try; the next try follows at once
constexpr auto kWelcomeLimit = 15s;  // node 0 may be busy with a thousand others
constexpr auto kFirstPause = 50ms;
constexpr auto kLongestPause = 1000ms;
constexpr auto kBetweenLines = 10s;

/// The result of a try: an answer over a link, or why there is none.
struct Handshake {
  std::shared_ptr<ControlLink> link;
  std::unique_ptr<FrameCipher> cipher;  // of the later link; null: no token
  std::optional<Answer> answer;
  std::string error;
};

struct Connected {
  std::size_t index = 0;
  std::string error;  // empty: connected
};

/// One try at all addresses in parallel. Owners: the try, and the connects under way.
struct Race {
  explicit Race(asio::io_context& io) : results(io) {}
  std::deque<tcp::socket> sockets;
  Inbox<Connected> results;
  void close(std::size_t index) { close_quietly(sockets[index]); }
};

/// Closes all sockets but the winner when the try ends, however it ends.
class RaceOwner {
 public:
  explicit RaceOwner(asio::io_context& io) : race_(std::make_shared<Race>(io)) {}
  RaceOwner(const RaceOwner&) = delete;
  RaceOwner& operator=(const RaceOwner&) = delete;
  ~RaceOwner() {
    for (std::size_t i = 0; i < race_->sockets.size(); ++i)
      race_->close(i);
  }
  [[nodiscard]] const std::shared_ptr<Race>& operator*() const { return race_; }
  Race* operator->() const { return race_.get(); }

 private:
  std::shared_ptr<Race> race_;
};

/// A source: one address.
asio::awaitable<void> connect(std::shared_ptr<Race> race,
                              std::size_t index,
                              tcp::endpoint target,
                              std::optional<asio::ip::address> from) {
  tcp::socket& socket = race->sockets[index];
  boost::system::error_code error;
  socket.open(target.protocol(), error);
  // Port 0: the kernel chooses, as --local-addr gives an address and no port.
  if (from && !error) socket.bind(tcp::endpoint(*from, 0), error);
  if (!error) {
    const auto [failure] = co_await socket.async_connect(target, kResult);
    error = failure;
  }
  Connected result;
  result.index = index;
  if (error) result.error = target.address().to_string() + ": " + error.message();
  race->results.push(std::move(result));
}

/// The addresses of a name, or a numeric address itself. Empty, with the reason in `problem`: none.
asio::awaitable<std::vector<asio::ip::address>> resolve(asio::io_context& io,
                                                        std::string name,
                                                        std::string& problem) {
  boost::system::error_code not_a_number;
  (void)asio::ip::make_address(name, not_a_number);
  Addresses found = co_await resolve_name(io, name);
  const bool is_only_here =
      std::ranges::all_of(found.list, [](const auto& a) { return a.is_loopback(); });
  if (!found.problem.empty()) {
    problem = "the name has no address: " + found.problem;
  } else if (not_a_number && name != "localhost" && is_only_here) {
    problem = "the name stands for " + found.list[0].to_string() +
              " here, which is this node itself: see /etc/hosts, or give node 0's address";
  }
  co_return std::move(found.list);
}

void note_answer(const std::string& frame, Handshake& attempt) {
  attempt.answer = decode_answer(frame);
  if (attempt.answer) return;
  attempt.error = "what listens there is not an agent of ddp-launch: it ";
  attempt.error += frame.empty() ? "closed the connection or was silent" : "sent something else";
}

/// True: both sides have proved the token, and `attempt` has the cipher. False: `attempt` has the
/// answer or the error.
asio::awaitable<bool> exchange_proofs(tcp::socket& socket,
                                      const JoinPlan& plan,
                                      std::string opening,
                                      Handshake& attempt) {
  Transcript said;
  said.opening = std::move(opening);
  said.node = make_nonce();
  co_await write_frame(socket, said.node);
  std::string frame = co_await read_frame(socket, kLongestFrame);
  if (frame.size() == kNonceBytes) {
    said.coordinator = std::move(frame);
    const std::string proof = prove(plan.token.text(), Prover::node, said);
    co_await write_frame(socket, proof);
    frame = co_await read_frame(socket, kLongestFrame);
    if (is_proof(frame, plan.token.text(), Prover::coordinator, said)) {
      attempt.cipher = std::make_unique<FrameCipher>(plan.token.text(), Prover::node, said);
      co_return true;
    }
  }
  // A peer that cannot prove the token may refuse us, but not welcome us.
  note_answer(frame, attempt);
  if (attempt.answer && std::holds_alternative<Refusal>(*attempt.answer)) co_return false;
  if (attempt.answer || frame.size() == kProofBytes)
    attempt.error = "what listens there does not know this job's token";
  attempt.answer.reset();
  co_return false;
}

/// The node's side of the handshake with net/handshake_server. Suspends: at most until the socket
/// is closed.
asio::awaitable<Handshake> converse(tcp::socket& socket, const JoinPlan& plan) {
  Handshake attempt;
  AgentOpening opening;
  opening.protocol = plan.hello.protocol;
  opening.has_token = !plan.token.empty();
  const std::string first = to_bytes(opening);
  co_await asio::async_write(socket, asio::buffer(first), kResult);
  if (opening.has_token && !co_await exchange_proofs(socket, plan, first, attempt))
    co_return attempt;
  const std::string hello = encode(plan.hello);
  FrameCipher* const cipher = attempt.cipher.get();
  co_await write_frame(socket, hello, cipher);
  const std::string frame = co_await read_frame(socket, kLongestFrame, cipher);
  note_answer(frame, attempt);
  if (frame.empty() && read_tcp_facts(socket.native_handle()).resends) {
    // The small opening has arrived, so there is a connection.
    attempt.error = "what this node says of itself does not arrive";
    attempt.error += kLargePacketsVanish;
  }
  if (cipher != nullptr && cipher->is_broken()) attempt.error = kAlteredFrame;
  co_return attempt;
}

asio::awaitable<Handshake> shake_hands(std::shared_ptr<Race> race,
                                       std::size_t index,
                                       const JoinPlan& plan,
                                       Deadline deadline) {
  tcp::socket& socket = race->sockets[index];
  asio::steady_timer timer(socket.get_executor(), deadline);
  timer.async_wait([race, index](const boost::system::error_code& error) {
    if (!error) race->close(index);
  });
  Handshake attempt = co_await converse(socket, plan);
  timer.cancel();
  if (attempt.answer && !socket.is_open()) attempt.answer.reset();  // too late
  if (attempt.answer)
    attempt.link = std::make_shared<ControlLink>(std::move(socket), std::move(attempt.cipher));
  co_return attempt;
}

/// `pause`: how long to wait for the other addresses after one has refused, so that a dead address
/// does not delay the next try.
asio::awaitable<Handshake> try_once(asio::io_context& io,
                                    const JoinPlan& plan,
                                    Deadline limit,
                                    std::chrono::milliseconds pause) {
  Handshake attempt;
  std::string errors;
  const std::vector<asio::ip::address> addresses = co_await resolve(io, plan.host, errors);
  std::optional<asio::ip::address> from;
  if (!plan.local_addr.empty()) {
    const auto own = co_await resolve(io, plan.local_addr, errors);
    if (!own.empty()) from = own[0];
  }
  const RaceOwner race(io);
  for (std::size_t i = 0; i < addresses.size(); ++i)
    race->sockets.emplace_back(io);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const tcp::endpoint target(addresses[i], static_cast<std::uint16_t>(plan.port));
    asio::co_spawn(io, connect(*race, i, target, from), rethrow);
  }
  const Deadline begin = Clock::now();
  Deadline end = std::min(limit, begin + kConnect);
  for (std::size_t answered = 0; answered < addresses.size(); ++answered) {
    const std::optional<Connected> result = co_await race->results.next(end);
    if (!result) {
      add_word(errors, "no answer", "; ");
      break;
    }
    if (!result->error.empty()) {
      add_word(errors, result->error, "; ");
      end = std::min(end, begin + pause);
      continue;
    }
    const Deadline deadline = std::min(limit, Clock::now() + kWelcomeLimit);
    attempt = co_await shake_hands(*race, result->index, plan, deadline);
    if (attempt.answer) co_return attempt;
    add_word(errors, addresses[result->index].to_string() + ": " + attempt.error, "; ");
  }
  attempt.error = errors;
  co_return attempt;
}

/// Errors: SystemError if the Hello is longer than node 0 reads; without a token that is short.
void require_short(const JoinPlan& plan) {
  const std::size_t bytes = encode(plan.hello).size();
  const std::size_t most = plan.token.empty() ? HandshakeServer::kLongestOpenHello : kLongestFrame;
  if (bytes <= most) return;
  throw SystemError("cannot join: what this node says of its job takes " + std::to_string(bytes) +
                        " bytes, and node 0 reads at most " + std::to_string(most) +
                        " from a node without a token. Give all nodes the same --token-file.",
                    exit_code::kRefused);
}

long seconds_until(Deadline deadline) {
  return std::chrono::duration_cast<std::chrono::seconds>(deadline - Clock::now() + 500ms).count();
}

}  // namespace

asio::awaitable<Joined> join(asio::io_context& io,
                             JoinPlan plan,
                             std::function<void(const std::string&)> notice) {
  require_short(plan);
  const Deadline end = Clock::now() + plan.limit;
  Deadline next_line = Clock::now() + kBetweenLines;
  std::chrono::milliseconds pause = kFirstPause;
  asio::steady_timer timer(io);
  while (true) {
    const Deadline begin = Clock::now();
    Handshake attempt = co_await try_once(io, plan, end, pause);
    if (attempt.answer) {
      if (const auto* const refusal = std::get_if<Refusal>(&*attempt.answer))
        throw SystemError(refusal->text, refusal->code);
      co_return Joined{attempt.link, std::get<Welcome>(*attempt.answer)};
    }
    if (Clock::now() >= next_line) {
      next_line += kBetweenLines;
      notice("node 0 does not answer at " + endpoint_text(plan.host, plan.port) + " (" +
             attempt.error + "); trying for another " + std::to_string(seconds_until(end)) + " s");
    }
    timer.expires_at(std::min(end, begin + pause));
    co_await timer.async_wait(kResult);
    if (Clock::now() >= end) {
      throw SystemError(
          "cannot join: node 0 does not answer at " + endpoint_text(plan.host, plan.port) +
              " after " +
              std::to_string(std::chrono::duration_cast<std::chrono::seconds>(plan.limit).count()) +
              " s (" + attempt.error +
              "). Start ddp-launch with --node-rank 0 on the node that --master-addr names, and "
              "let this node reach that port.",
          exit_code::kRendezvous);
    }
    // The pause grows, so that a thousand waiting nodes do not flood a late node 0.
    pause = std::min<std::chrono::milliseconds>(2 * pause, kLongestPause);
  }
}

asio::awaitable<std::optional<Answer>> ask_once(asio::io_context& io,
                                                JoinPlan plan,
                                                std::chrono::milliseconds limit) {
  const Deadline end = Clock::now() + limit;
  plan.hello.is_question = true;
  Handshake attempt = co_await try_once(io, plan, end, limit);
  co_return attempt.answer;
}

}  // namespace ddp::launcher
