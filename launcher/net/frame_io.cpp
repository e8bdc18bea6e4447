#include "launcher/net/frame_io.h"

#include <array>
#include <boost/asio/completion_condition.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <optional>

#include "launcher/plan/wire/frames.h"

namespace ddp::launcher {

asio::awaitable<std::string> read_frame(tcp::socket& socket,
                                        std::size_t longest,
                                        FrameCipher* cipher) {
  if (cipher != nullptr) longest += kSealBytes + kSealHeadBytes;
  std::string frame;
  std::array<char, kFrameHeadBytes> head;
  // Read only this frame's bytes: after the handshake the link reads from the same socket.
  const auto [error, got] = co_await asio::async_read(socket, asio::buffer(head), kResult);
  const std::optional<std::size_t> size =
      read_frame_head(std::string_view(head.data(), got), longest);
  if (error || !size) co_return frame;
  // The buffer grows with the bytes that come, not with the announced length.
  auto room = asio::dynamic_buffer(frame, *size);
  const auto [failure, bytes] =
      co_await asio::async_read(socket, room, asio::transfer_exactly(*size), kResult);
  if (failure) frame.clear();
  if (cipher != nullptr && !failure) frame = cipher->open(frame).value_or("");
  co_return frame;
}

asio::awaitable<bool> write_frame(tcp::socket& socket, std::string frame, FrameCipher* cipher) {
  if (cipher != nullptr) frame = cipher->seal(frame);
  frame.insert(0, frame_head(frame.size()));
  const auto [error, size] = co_await asio::async_write(socket, asio::buffer(frame), kResult);
  co_return !error;
}

}  // namespace ddp::launcher
