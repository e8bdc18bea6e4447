// The TCP store of the workers, served by the agent: c10d's protocol over sockets, one key space
// per round. It outlives every worker, so that none has to leave last, and it knows which clients
// have joined and which wait for which keys.
// Promises: a client that stalls, floods or sends nonsense harms no other: unread replies hold back
// only its own requests, its bytes are bounded, and it alone is disconnected. A client without a
// request within kFirstRequest is closed, as torch's clients send one at once. A client's requests
// use the loop for at most kTurn and one key or value; then others get their turn.
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

  /// Takes a connection that has opened with VALIDATE.
  void admit(tcp::socket socket);

  /// Begins with an empty key space, and closes the connections of older rounds.
  void begin_round();
  /// Sets the memory limit from the next round on. Buffers of requests and replies count.
  void set_max_bytes(std::size_t bytes) { max_bytes_ = bytes; }

  /// Closes every connection, so that the loop can end.
  void close();

  [[nodiscard]] std::size_t clients() const { return sessions_.size(); }

  /// A process that has joined.
  struct Client {
    std::string address;  // numeric
    pid_t pid = 0;        // on its node, as torch's clients send it
    auto operator<=>(const Client&) const = default;
  };
  /// All that joined in this round, in order, also those that have left.
  [[nodiscard]] const std::vector<Client>& joined() const { return joined_; }
  /// When the first of them joined. Precondition: one has.
  [[nodiscard]] Clock::time_point first_join() const { return first_join_; }
  /// The clients that are connected now.
  [[nodiscard]] std::set<Client> connected() const;

  /// How often each client has changed the store in this round. Reads and checks are not counted,
  /// as they prove no progress: NCCL's monitor checks a key every second, forever.
  [[nodiscard]] const std::map<Client, std::uint64_t>& writes() const { return writes_; }

  struct Waiting {
    Client client;
    std::string key;  // a key that nobody has set
    Clock::time_point since;
  };
  /// The clients that wait for a key, longest wait first.
  [[nodiscard]] std::vector<Waiting> waiting() const;

  static constexpr std::chrono::seconds kFirstRequest{30};
  static constexpr std::chrono::milliseconds kTurn{1};
  static constexpr std::size_t kReadBytes = 64 << 10;
  static constexpr std::size_t kUnreadBytes = 1 << 20;  // of replies; above this no more requests

 private:
  struct Session;

  asio::awaitable<void> serve(std::shared_ptr<Session> session);
  bool receive(Session& session);
  /// Why no more requests of a client are carried out now.
  enum class Pause { no_request, unread_replies, turn_of_others };
  Pause carry_out(const std::shared_ptr<Session>& session);
  Pause carry_out_some(const std::shared_ptr<Session>& session);
  bool take_request(Session& session);
  void step(const std::shared_ptr<Session>& session, const KeySpace::ShouldYield& should_yield);
  asio::awaitable<void> collect_garbage();
  void start_collecting();
  void send(const std::shared_ptr<Session>& session);
  void account(Session& session);
  void refuse(Session& session, const std::string& why);
  void drop(Session& session);
  void drop_idle();
  void arm_idle_timer();

  asio::io_context& io_;
  const Notice notice_;
  const std::chrono::milliseconds first_request_;
  std::size_t max_bytes_ = KeySpace::kMaxBytes;
  KeySpace keys_;
  std::deque<KeySpace> old_;  // of past rounds, until their memory is freed
  bool is_collecting_ = false;
  std::unordered_map<StoreClientId, std::shared_ptr<Session>> sessions_;
  std::vector<Client> joined_;
  Clock::time_point first_join_;
  std::set<Client> known_;  // the same as joined_
  std::map<Client, std::uint64_t> writes_;
  StoreClientId next_id_ = 1;
  std::size_t buffered_ = 0;  // bytes in all sessions
  bool has_noticed_ = false;  // in this round
  std::vector<char> input_;   // buffer for the client that is being read
  struct Entry {
    Clock::time_point deadline;  // of its first request
    StoreClientId id;
  };
  std::deque<Entry> awaiting_first_request_;  // connected within first_request_, oldest first
  asio::steady_timer idle_timer_;
};

}  // namespace ddp::launcher
