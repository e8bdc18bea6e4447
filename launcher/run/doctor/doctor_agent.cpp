#include "launcher/run/doctor/doctor_agent.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "common/error.h"
#include "launcher/net/peer_check.h"
#include "launcher/os/inbox.h"
#include "launcher/run/doctor/node_checks.h"

namespace ddp::launcher {
namespace {

constexpr std::chrono::seconds kCommandWait(600);

struct LinkLost {
  std::string how;
};

}  // namespace

asio::awaitable<DoctorEnd> run_doctor_agent(asio::io_context& io,
                                            NodeHealth health,
                                            std::shared_ptr<ControlLink> link) {
  using Event = std::variant<DoctorMessage, LinkLost>;
  Inbox<Event> inbox(io);
  PeerListener listener(io, link->own_address());
  listener.start();
  health.address = link->own_address();
  health.port = listener.port();
  link->start(
      [&inbox](std::string_view frame) {
        std::optional<DoctorMessage> message = decode_doctor(frame);
        if (message) inbox.push(std::move(*message));
        return message.has_value();
      },
      [&inbox](const std::string& how) { inbox.push(LinkLost{how}); });
  link->send(encode(DoctorMessage(health)));
  std::string how = "it says nothing";
  while (true) {
    const std::optional<Event> event = co_await inbox.next(Clock::now() + kCommandWait);
    const auto* const message = event ? std::get_if<DoctorMessage>(&*event) : nullptr;
    if (message == nullptr) {
      if (event) how = std::get<LinkLost>(*event).how;
      break;
    }
    const auto* const end = std::get_if<DoctorEnd>(message);
    if (end != nullptr) {
      link->close();
      listener.close();
      co_return *end;
    }
    const auto* const task = std::get_if<CheckPeers>(message);
    if (task == nullptr) continue;
    NodeChecks checks = co_await check_peers(io, *task);
    link->send(encode(DoctorMessage(std::move(checks))));
  }
  link->close();
  throw SystemError("node 0's doctor at " + link->peer_address() + " is gone: " + how +
                        ". See what it printed there.",
                    exit_code::kRendezvous);
}

}  // namespace ddp::launcher
