// Single frames over a socket, for the handshake. A frame is read exactly to its last byte, so that
// the next owner of the socket finds the next frame.
#pragma once

#include <string>

#include "launcher/net/frame_cipher.h"
#include "launcher/os/asio.h"

namespace ddp::launcher {

/// The next frame. Suspends: until it is there, or the socket is closed (by a deadline of the
/// caller's). Errors: an empty text if no frame comes, if it is longer than `longest`, or if it
/// breaks the cipher (null: frames are plain).
asio::awaitable<std::string> read_frame(tcp::socket& socket,
                                        std::size_t longest,
                                        FrameCipher* cipher = nullptr);

/// False: it cannot be sent.
asio::awaitable<bool> write_frame(tcp::socket& socket,
                                  std::string frame,
                                  FrameCipher* cipher = nullptr);

}  // namespace ddp::launcher
