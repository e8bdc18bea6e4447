#include "worker/dist/store.h"

#include <poll.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/text/one_line.h"
#include "worker/dist/peer_call.h"
#include "worker/dist/store_answer.h"

namespace ddp::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetryDelay{10};
constexpr std::chrono::seconds kNoticeEvery{10};
constexpr std::size_t kLongestLine = 500;

std::string endpoint(const WorkerIdentity& self) {
  return self.master_addr + ":" + std::to_string(self.master_port);
}

std::string wait_until_up(const WorkerIdentity& self, std::chrono::milliseconds timeout) {
  const StoreAddresses addresses(self);
  const Clock::time_point start = Clock::now();
  Clock::time_point next_notice = start + kNoticeEvery;
  while (true) {
    const StoreAnswer found = addresses.ask(start + timeout);
    if (found.local_address) return *found.local_address;
    if (found.error && leave_with_rank_0(found.to_rank_0, self)) {
      const std::string first_line = found.error->substr(0, found.error->find('\n'));
      throw PeerError("rank 0 did not join: " + one_line(first_line, kLongestLine));
    }
    const Clock::time_point now = Clock::now();
    if (now - start > timeout) {
      throw PeerError("no store answers at " + endpoint(self) + " after " +
                          std::to_string(timeout.count() / 1000) + " s. " +
                          (found.is_listening
                               ? "Somebody listens there, but it is not a store: is the port right?"
                               : "Is rank 0 running, and can this node reach it?"),
                      exit_code::kRendezvous);
    }
    if (now >= next_notice) {
      log::info("rank " + std::to_string(self.rank) + " waits for the store at " + endpoint(self));
      next_notice += kNoticeEvery;
    }
    ::poll(nullptr, 0, static_cast<int>(kRetryDelay.count()));
  }
}

/// Takes the port from a rank 0 of an earlier start that may still report why it did not join.
void end_error_server(const WorkerIdentity& self, std::chrono::milliseconds timeout) {
  const StoreAnswer found = StoreAddresses(self).ask(Clock::now() + timeout);
  if (found.error) (void)leave_with_rank_0(found.to_rank_0, self);
}

}  // namespace

OpenStore open_store(const WorkerIdentity& self, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(self.master_port);
  options.isServer = self.rank == 0 && !self.agent_store;
  options.waitWorkers = false;
  options.timeout = timeout;
  OpenStore open;
  if (options.isServer) end_error_server(self, timeout);
  if (!options.isServer) open.local_address = wait_until_up(self, timeout);
  try {
    open.store = c10::make_intrusive<c10d::TCPStore>(self.master_addr, options);
  } catch (const std::exception& error) {
    const std::string what =
        options.isServer ? "cannot serve the store at " : "cannot join the store at ";
    throw PeerError(what + endpoint(self) + ": " + message_of(error), exit_code::kRendezvous);
  }
  if (options.isServer) open.local_address = wait_until_up(self, timeout);
  return open;
}

c10::intrusive_ptr<c10d::Store> store_of_round(const WorkerIdentity& self, const OpenStore& open) {
  return c10::make_intrusive<c10d::PrefixStore>(
      "run/" + self.user_run_id + "/" + std::to_string(self.restart_count), open.store);
}

}  // namespace ddp::worker
