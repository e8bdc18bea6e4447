// Single frames over a socket, for the handshake: a frame is read to its last byte and not one
// further, so that anyone who takes the socket over finds the next one.
#pragma once

#include <string>

#include "launcher/net/frame_cipher.h"
#include "launcher/os/asio.h"

namespace ddp::launcher {

/// What comes next. Suspends: until it is there, or the socket is closed (by a deadline of the
/// caller's). Errors: an empty text when it does not come, is longer than `longest`, or breaks the
/// cipher (null: it comes plain).
asio::awaitable<std::string> read_frame(tcp::socket& socket,
                                        std::size_t longest,
                                        FrameCipher* cipher = nullptr);

/// False when it cannot be sent.
asio::awaitable<bool> write_frame(tcp::socket& socket,
                                  std::string frame,
                                  FrameCipher* cipher = nullptr);

}  // namespace ddp::launcher
