// How a job of --hosts ends, as the program sees it that the user started with --hosts (the
// *starter*): one connection (ssh) to each host, over which an agent announces itself. Pure:
// run/hosts starts the connections, passes on what they print, and carries out the decisions.
//
//   event                                            then
//   the user's first stop request                    stop the agents
//   the second                                       kill: the agents kill their workers
//   the third                                        cut the connections; more change nothing
//   a connection ends without an agent               stop the agents; after a stop request nothing
//   the first connection ends                        the others get `others_wait`
//   `others_wait` is over                            stop the agents, and wait for the next end
//
// The exit code is that of the first row that applies:
//
//   the hosts' connections                           exit code
//   one had no agent, without a stop request         202 if ssh has failed, else the shell's own
//                                                    code there; the first of such hosts counts
//   an agent has ended by itself                     its own; all agents of a job have the same
//   all were cut off: ssh failed, or was killed      143 after a stop request, else 255
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/plan/exit_status.h"
#include "launcher/plan/round/stop_requests.h"

namespace ddp::launcher {

class HostsEnd {
 public:
  using Time = StopRequests::Time;
  enum class Action : std::uint8_t { wait, stop_agents, kill_agents, cut_connections };

  static constexpr int kSshFailed = 255;  // ssh(1)'s own code; also: its command was killed

  HostsEnd(std::size_t hosts, std::chrono::nanoseconds others_wait)
      : others_wait_(others_wait), hosts_(hosts), open_(hosts) {}

  // --- Events.

  void note_agent(std::size_t host) { hosts_[host].has_agent = true; }
  /// stop_agents: the host had no agent, so the job cannot run.
  Action note_connection_ended(std::size_t host, ExitStatus status, Time now);
  Action note_stop_request(Time at);
  Action note_deadline();

  /// When to call note_deadline(), for connections that do not end with the others; nothing: no
  /// limit.
  [[nodiscard]] std::optional<Time> deadline() const { return deadline_; }
  /// Whether no connection is left.
  [[nodiscard]] bool is_over() const { return open_ == 0; }
  [[nodiscard]] bool has_agent(std::size_t host) const { return hosts_[host].has_agent; }
  /// Precondition: the host's connection has ended.
  [[nodiscard]] ExitStatus status(std::size_t host) const { return *hosts_[host].status; }
  [[nodiscard]] bool has_ended(std::size_t host) const { return hosts_[host].status.has_value(); }

  /// Whether a shell on the host has run, by the status of a connection without an agent.
  [[nodiscard]] static bool is_reached(ExitStatus status) { return status.exit_code() < 128; }

  // --- The end. Precondition: is_over().

  [[nodiscard]] int exit_code() const;
  /// The hosts that were cut off, if another host's agent has reported how the job ended.
  [[nodiscard]] std::vector<std::size_t> cut_off() const;

 private:
  struct Host {
    bool has_agent = false;
    std::optional<ExitStatus> status;
  };
  [[nodiscard]] const Host* find_reported() const;

  std::chrono::nanoseconds others_wait_;
  std::vector<Host> hosts_;
  std::size_t open_;
  std::optional<Time> deadline_;
  StopRequests requests_;
  std::optional<int> start_failure_;  // the exit code when a host had no agent
};

}  // namespace ddp::launcher
