// A client of the TCP store that sends whatever bytes a test wants, and waits with a deadline.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddp::test {

/// Little endian, and a text with its length, as the protocol has them.
std::string u64(std::uint64_t value);
std::string text(std::string_view value);

class StoreClient {
 public:
  /// Connects. `says_hello`: also sends VALIDATE and PING with `pid`, and takes the answer.
  explicit StoreClient(int port, bool says_hello = true, std::uint32_t pid = 0);
  StoreClient(StoreClient&& other) noexcept;
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;
  ~StoreClient();

  /// False when the connection is closed.
  bool send(std::string_view bytes);
  /// Sends what the socket takes without waiting. Returns how much that was.
  std::size_t try_send(std::string_view bytes);
  /// Exactly so many bytes, or what came before the end or the deadline.
  std::string receive(std::size_t bytes, std::chrono::milliseconds limit = kLimit);
  /// Whether the server has closed it; what it had sent before is dropped.
  bool is_closed_within(std::chrono::milliseconds limit = kLimit);

  void set(std::string_view key, std::string_view value);
  std::string get(std::string_view key);

  static constexpr std::chrono::seconds kLimit{20};

 private:
  int fd_ = -1;
};

}  // namespace ddp::test
