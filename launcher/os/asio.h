// The only wrapper of Asio: the names we use, and two rules against its traps. Results are values
// (`kResult`), and every coroutine that is started passes its exception on (`rethrow`).
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>

namespace ddp::launcher {

namespace asio = boost::asio;
using asio::ip::tcp;

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

/// `const auto [error, size] = co_await stream.async_read_some(buffer, kResult);`
inline constexpr auto kResult = asio::as_tuple(asio::use_awaitable);

/// The completion of every co_spawn: run() throws the coroutine's exception. Without it run() would
/// return as if all were well.
inline void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

/// Closes what may be closed already, or whose peer is gone: there is nothing to do about an error.
template <typename Io>
void close_quietly(Io& io) {
  boost::system::error_code ignored;
  io.close(ignored);
}

/// An address in its shortest form: an IPv4-mapped IPv6 address becomes the IPv4 one.
inline asio::ip::address plain(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
}

}  // namespace ddp::launcher
