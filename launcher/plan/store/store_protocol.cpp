#include "launcher/plan/store/store_protocol.h"

#include <array>
#include <utility>

namespace ddp::launcher {
namespace {

constexpr int kCountBytes = 8;
constexpr std::size_t kKeptBytes = 4096;  // of an idle connection

/// The fields after a command's byte, in this order.
struct Shape {
  bool counted;  // a count of entries comes first
  int texts;     // per entry: a key, then values
  int number;    // bytes
};
constexpr std::array<Shape, kStoreCommands> kShapes{{
    {false, 0, 4},  // validate: magic
    {false, 2, 0},  // set
    {false, 3, 0},  // compare_set: key, expected, desired
    {false, 1, 0},  // get
    {false, 1, 8},  // add
    {true, 1, 0},   // check
    {true, 1, 0},   // wait
    {false, 0, 0},  // count_keys
    {false, 1, 0},  // delete_key
    {false, 2, 0},  // append
    {true, 1, 0},   // multi_get
    {true, 2, 0},   // multi_set
    {false, 0, 0},  // cancel_wait
    {false, 0, 4},  // ping
    {false, 2, 0},  // queue_push
    {false, 1, 0},  // queue_pop
    {false, 1, 0},  // queue_length
    {false, 0, 0},  // list_keys
    {false, 1, 8},  // barrier: key, number of clients
}};

const Shape& shape_of(const StoreRequest& request) {
  return kShapes[static_cast<std::size_t>(request.command)];
}

/// Reads a little endian number, on any machine.
std::uint64_t read_little(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

void put_little(std::string& reply, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    reply += static_cast<char>(value >> (8 * i) & 0xff);
}

}  // namespace

StoreOpening read_opening(std::string_view bytes) {
  if (bytes.empty()) return StoreOpening::unknown;
  const auto command = static_cast<unsigned char>(bytes[0]);
  if (command >= kStoreCommands) return StoreOpening::not_a_store;
  if (command != 0) return StoreOpening::old_store;
  if (bytes.size() < kStoreOpeningBytes) return StoreOpening::unknown;
  return read_little(bytes.substr(1, 4)) == kStoreMagic ? StoreOpening::store
                                                        : StoreOpening::old_store;
}

std::optional<StoreRequest> StoreDecoder::next() {
  while (!broken_) {
    if (!request_ && !begin()) break;
    const Shape& shape = shape_of(*request_);
    if (!texts_left_ && !read_count()) break;
    while (*texts_left_ > 0 && read_text()) {
    }
    if (broken_ || *texts_left_ > 0) break;
    if (shape.number > 0 && !read_number()) break;
    request_bytes_ = 0;
    texts_left_.reset();
    return std::exchange(request_, std::nullopt);
  }
  // Drop decoded bytes; unless the input is broken, less than one field is left.
  input_.erase(0, position_);
  position_ = 0;
  if (broken_) input_.clear();
  if (input_.empty() && input_.capacity() > kKeptBytes) input_.shrink_to_fit();
  return std::nullopt;
}

bool StoreDecoder::begin() {
  if (position_ == input_.size()) return false;
  const auto command = static_cast<unsigned char>(input_[position_]);
  // After the handshake VALIDATE is as wrong as an unknown command.
  if (command == 0 || command >= kStoreCommands) return give_up();
  ++position_;
  request_.emplace();
  request_->command = static_cast<StoreCommand>(command);
  if (!shape_of(*request_).counted)
    texts_left_ = static_cast<std::uint64_t>(shape_of(*request_).texts);
  return true;
}

bool StoreDecoder::read_count() {
  const std::optional<std::uint64_t> count = peek(kCountBytes);
  if (!count) return false;
  if (*count > kMaxKeys) return give_up();
  position_ += kCountBytes;
  texts_left_ = *count * static_cast<std::uint64_t>(shape_of(*request_).texts);
  return true;
}

bool StoreDecoder::read_text() {
  const std::optional<std::uint64_t> length = peek(kCountBytes);
  if (!length) return false;
  const auto per_entry = static_cast<std::size_t>(shape_of(*request_).texts);
  const bool is_key = request_->texts.size() % per_entry == 0;
  if (*length > (is_key ? kMaxKeyBytes : kMaxValueBytes)) return give_up();
  const std::size_t bytes = sizeof(std::string) + *length;
  if (request_bytes_ + bytes > kMaxRequestBytes) return give_up();
  if (input_.size() - position_ - kCountBytes < *length) return false;
  request_->texts.emplace_back(input_, position_ + kCountBytes, *length);
  request_bytes_ += bytes;
  position_ += kCountBytes + *length;
  --*texts_left_;
  return true;
}

bool StoreDecoder::read_number() {
  const int bytes = shape_of(*request_).number;
  const std::optional<std::uint64_t> number = peek(bytes);
  if (!number) return false;
  request_->number = static_cast<std::int64_t>(*number);
  position_ += static_cast<std::size_t>(bytes);
  return true;
}

bool StoreDecoder::give_up() {
  broken_ = true;
  request_.reset();
  request_bytes_ = 0;
  return false;
}

std::optional<std::uint64_t> StoreDecoder::peek(int bytes) const {
  const auto size = static_cast<std::size_t>(bytes);
  if (input_.size() - position_ < size) return {};
  return read_little(std::string_view(input_).substr(position_, size));
}

void put_byte(std::string& reply, std::uint8_t value) {
  put_little(reply, value, 1);
}
void put_u32(std::string& reply, std::uint32_t value) {
  put_little(reply, value, 4);
}
void put_u64(std::string& reply, std::uint64_t value) {
  put_little(reply, value, 8);
}
void put_text(std::string& reply, std::string_view text) {
  put_u64(reply, text.size());
  reply.append(text);
}

}  // namespace ddp::launcher
