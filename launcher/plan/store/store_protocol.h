// The wire protocol of torch's TCPStore (c10d, torch 2.4 to 2.15): bytes in, whole requests out.
// Pure. Integers are little endian; a text is a u64 length and its bytes. A client opens with
// VALIDATE and a magic number, then sends requests in pieces of any size. Replies come in order;
// some requests have none.
// Promises: a decoder holds no more than the bytes it was fed, whatever lengths they announce. A
// length above its limit is refused as soon as it is read.
// Source: torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp of torch 2.11; BARRIER, which torch
// 2.15 sends, as its server answers it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::launcher {

enum class StoreCommand : std::uint8_t {
  validate,
  set,
  compare_set,
  get,
  add,
  check,
  wait,
  count_keys,
  delete_key,
  append,
  multi_get,
  multi_set,
  cancel_wait,
  ping,
  queue_push,
  queue_pop,
  queue_length,
  list_keys,
  barrier,
};
inline constexpr std::size_t kStoreCommands = 19;

/// Whether the command changes values or queues.
constexpr bool changes_store(StoreCommand command) {
  switch (command) {
    case StoreCommand::set:
    case StoreCommand::compare_set:
    case StoreCommand::add:
    case StoreCommand::delete_key:
    case StoreCommand::append:
    case StoreCommand::multi_set:
    case StoreCommand::queue_push:
    case StoreCommand::queue_pop:
    case StoreCommand::barrier:
      return true;
    default:
      return false;
  }
}

struct StoreRequest {
  StoreCommand command = StoreCommand::validate;
  std::vector<std::string> texts;  // as sent: keys; or key, value, key, value; or key, old, new
  std::int64_t number =
      0;  // what ADD adds, who BARRIER waits for, PING's nonce, the magic of VALIDATE
  bool operator==(const StoreRequest&) const = default;
};

inline constexpr std::size_t kMaxKeyBytes = 8192;
inline constexpr std::size_t kMaxValueBytes = 8 << 20;
inline constexpr std::uint64_t kMaxKeys = 131072;              // of one request
inline constexpr std::size_t kMaxRequestBytes = 256ULL << 20;  // ours; torch has no such limit
inline constexpr std::uint32_t kStoreMagic = 0x3C85F7CE;

/// The kind of a connection, from its first bytes.
enum class StoreOpening {
  unknown,      // too few bytes to tell
  store,        // VALIDATE and the magic number
  old_store,    // another command of the protocol: a client of torch 1.x, which does not validate
  not_a_store,  // anything else
};
inline constexpr std::size_t kStoreOpeningBytes = 5;
/// Looks at up to kStoreOpeningBytes bytes.
StoreOpening read_opening(std::string_view bytes);

/// Decodes the bytes after the opening into requests.
class StoreDecoder {
 public:
  void feed(std::string_view bytes) { input_.append(bytes); }

  /// The next whole request. Nothing: more bytes are needed, or is_broken().
  std::optional<StoreRequest> next();

  /// Whether bytes came that are not a request. Then next() returns nothing more; close the
  /// connection.
  [[nodiscard]] bool is_broken() const { return broken_; }

  /// Memory of the request being decoded, in bytes.
  [[nodiscard]] std::size_t held() const { return input_.capacity() + request_bytes_; }

 private:
  bool begin();
  bool read_count();
  bool read_text();
  bool read_number();
  bool give_up();
  std::optional<std::uint64_t> peek(int bytes) const;

  std::string input_;
  std::size_t position_ = 0;  // into input_: bytes before it are decoded
  std::optional<StoreRequest> request_;
  std::optional<std::uint64_t> texts_left_;  // nothing: count not read yet
  std::size_t request_bytes_ = 0;
  bool broken_ = false;
};

/// Append a field of a reply to `reply`.
void put_byte(std::string& reply, std::uint8_t value);
void put_u32(std::string& reply, std::uint32_t value);
void put_u64(std::string& reply, std::uint64_t value);
void put_text(std::string& reply, std::string_view text);

}  // namespace ddp::launcher
