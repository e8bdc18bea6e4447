// The warm templates of this user on this node: Python processes that have imported modules and
// wait for the next job (os/rank_template). Each listens at a socket in a directory that no other
// user can enter. A template's key (plan/start/template_messages: warm_key) says what a job must
// have in common with it; the template itself compares the keys.
// Promises: after make_room() the pool has at most kMost templates.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files/descriptor.h"
#include "common/node/environment.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/plan/start/template_messages.h"

namespace ddp::launcher {

class WarmPool {
 public:
  static constexpr std::size_t kMost = 2;

  /// Opens the pool in `scratch_place`, this user's existing directory for jobs; makes it if
  /// needed. Nothing: it cannot be made, or is not ours alone.
  static std::optional<WarmPool> open(const std::filesystem::path& scratch_place);

  /// A connection to the template with this key. Closed: there is no such template.
  [[nodiscard]] Descriptor find(const std::string& key) const;

  struct OtherKey {
    pid_t pid = 0;
    std::string key;
  };
  /// Of the templates that answer. Blocks: kAnswerLimit for each that does not.
  [[nodiscard]] std::vector<OtherKey> other_keys() const;

  /// Ends the templates that were longest without a job, so that there is room for that of `key`.
  void make_room(const std::string& key) const;

  struct BoundSocket {
    Descriptor socket;  // the template will listen at it
    WarmSocket names;
  };
  /// Makes the socket for a new template. Ends the one that has this key, and makes room. Errors:
  /// SystemError.
  [[nodiscard]] BoundSocket bind_socket(const std::string& key, std::chrono::seconds idle) const;

  /// Removes the sockets of templates that did not become ready: of our own, and of those whose
  /// agents are gone.
  void tidy() const;

  struct Entry {
    WarmTemplate facts;
    std::uint64_t memory = 0;  // bytes, its share (PSS)
  };
  /// The templates that answer. Removes the sockets of those that are gone. Blocks: kAnswerLimit
  /// for each that does not answer.
  [[nodiscard]] std::vector<Entry> list() const;

  /// Ends all templates; returns those that were there. Running jobs go on. A template that does
  /// not answer is killed. Blocks: at most 3 * kAnswerLimit for each of those.
  [[nodiscard]] std::vector<Entry> stop() const;

  static constexpr std::chrono::milliseconds kAnswerLimit{1000};

 private:
  explicit WarmPool(PrivateDir directory) : directory_(std::move(directory)) {}
  [[nodiscard]] Descriptor connect(const std::string& name) const;
  [[nodiscard]] std::optional<Entry> describe(const std::string& name) const;
  void stop(const std::string& name) const;

  PrivateDir directory_;
};

/// What our processes inherit from us besides the environment, if an import could see it: user,
/// groups, capabilities, limits, CPUs, cgroup, namespaces, directory, kind of stdin. And which file
/// `executable` is. Lines of the form "NAME: VALUE".
std::string inherited_state(const std::filesystem::path& executable);

/// Reads one packet from `socket`, cut at `most` bytes. Nothing: none came within `limit`, or the
/// other end is closed. Blocks: at most `limit`.
std::optional<std::string> receive_packet(int socket,
                                          std::chrono::milliseconds limit,
                                          std::size_t most = 4096);

/// The process that listens at the other end of `socket`; 0: not known, or another user's.
pid_t listener_of(int socket);

}  // namespace ddp::launcher
