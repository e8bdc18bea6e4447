// The TCP store of the workers, served by the agent: c10d's protocol over sockets, one key space
// per round. It outlives every worker, so that none has to leave last, and it knows who has joined
// and who waits for what.
// Promises: a client that stalls, floods or sends nonsense harms nobody: what it does not read
// holds back its own requests, what it sends is bounded, and it alone is disconnected. One that has
// asked for nothing within kFirstRequest goes: torch's clients ask at once. Nobody's requests keep
// the loop for longer than kTurn, and one key or value: then everybody else has a turn.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "launcher/os/asio.h"
#include "launcher/plan/store/key_space.h"
#include "launcher/plan/store/store_protocol.h"

namespace ddp::launcher {

class StoreServer {
 public:
  using Notice = std::function<void(const std::string&)>;

  /// `notice` takes a line for the user: the first client of a round that had to be disconnected.
  /// Both outlive the server; nothing calls back once `io` has ended.
  StoreServer(asio::io_context& io,
              Notice notice,
              std::chrono::milliseconds first_request = kFirstRequest);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// A connection that has opened with VALIDATE.
  void admit(tcp::socket socket);

  /// An empty key space; the connections of older rounds are closed.
  void begin_round();
  /// From the next round on so much is kept, what is being read and sent included.
  void set_max_bytes(std::size_t bytes) { max_bytes_ = bytes; }

  /// Closes every connection, so that the loop can end.
  void close();

  [[nodiscard]] std::size_t clients() const { return sessions_.size(); }

  /// A process that has joined.
  struct Client {
    std::string address;  // numeric, that it comes from
    pid_t pid = 0;        // on its node, as torch's clients tell it
    auto operator<=>(const Client&) const = default;
  };
  /// All that joined in this round, also those that left, in the order of their coming.
  [[nodiscard]] const std::vector<Client>& joined() const { return joined_; }
  /// Those that are connected now.
  [[nodiscard]] std::set<Client> connected() const;

  /// How often each has changed something, in this round. Who only asks, or looks whether something
  /// is there, may do so for ever: NCCL's monitor does, every second.
  [[nodiscard]] const std::map<Client, std::uint64_t>& writes() const { return writes_; }

  struct Waiting {
    Client client;
    std::string key;  // one that nobody has set
    Clock::time_point since;
  };
  /// Who waits for a key, the longest first.
  [[nodiscard]] std::vector<Waiting> waiting() const;

  static constexpr std::chrono::seconds kFirstRequest{30};
  static constexpr std::chrono::milliseconds kTurn{1};
  static constexpr std::size_t kReadBytes = 64 << 10;
  static constexpr std::size_t kUnreadBytes = 1 << 20;  // of replies: above it, no more requests

 private:
  struct Session;

  asio::awaitable<void> serve(std::shared_ptr<Session> session);
  bool receive(Session& session);
  /// Why no more requests of a client are carried out just now.
  enum class Pause { no_request, unread_replies, turn_of_others };
  Pause carry_out(const std::shared_ptr<Session>& session);
  Pause carry_out_some(const std::shared_ptr<Session>& session);
  bool take_request(Session& session);
  void step(const std::shared_ptr<Session>& session, const KeySpace::ShouldYield& should_yield);
  asio::awaitable<void> collect_garbage();
  void start_tidying();
  void send(const std::shared_ptr<Session>& session);
  void account(Session& session);
  void refuse(Session& session, const std::string& why);
  void drop(Session& session);
  void drop_idle();
  void close_idle();

  asio::io_context& io_;
  const Notice notice_;
  const std::chrono::milliseconds first_request_;
  std::size_t max_bytes_ = KeySpace::kMaxBytes;
  KeySpace keys_;
  std::deque<KeySpace> old_;  // of rounds that are over, until their memory is given back
  bool is_collecting_ = false;
  std::unordered_map<StoreClientId, std::shared_ptr<Session>> sessions_;
  std::vector<Client> joined_;
  std::set<Client> known_;  // the same
  std::map<Client, std::uint64_t> writes_;
  StoreClientId next_id_ = 1;
  std::size_t buffered_ = 0;  // bytes in all sessions
  bool has_noticed_ = false;  // in this round
  std::vector<char> input_;   // of anyone who is read just now
  struct Entry {
    Clock::time_point deadline;  // of its first request
    StoreClientId id;
  };
  std::deque<Entry> newest_;  // who has come within first_request_, the oldest first
  asio::steady_timer idle_timer_;
};

}  // namespace ddp::launcher
