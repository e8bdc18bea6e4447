// The warm templates of this user on this node: Python processes that have imported modules and
// wait for the next job (os/rank_template). Each listens at a socket in a directory that no other
// user can enter. What two jobs must have in common to share one is its key (plan/start/preload),
// which the template compares itself.
// Promises: at most kMost templates are there after make_room().
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files/descriptor.h"
#include "common/node/identity.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/plan/start/preload.h"

namespace ddp::launcher {

class WarmPool {
 public:
  static constexpr std::size_t kMost = 2;

  /// Opens the pool in `scratch_place`, this user's existing directory for jobs; makes it if needed.
  /// Nothing: it cannot be made, or is not ours alone.
  static std::optional<WarmPool> open(const std::filesystem::path& scratch_place);

  /// A connection to the template of that key. None: there is none.
  [[nodiscard]] Descriptor find(const std::string& key) const;

  struct OtherKey {
    pid_t pid = 0;
    std::string key;
  };
  /// Of the templates that answer. Blocks: kAnswerLimit for each that does not.
  [[nodiscard]] std::vector<OtherKey> other_keys() const;

  struct Place {
    Descriptor socket;  // bound, for the template to listen at
    WarmPlace names;
  };
  /// Ends the templates that were longest without a job, so that there is room for that of `key`.
  void make_room(const std::string& key) const;

  /// For a template to be made. Ends one of that key, and makes room. Errors: SystemError.
  [[nodiscard]] Place make_place(const std::string& key, std::chrono::seconds idle) const;

  /// Removes names of templates that did not become ready: ours, and those of agents that are gone.
  void tidy() const;

  struct Entry {
    WarmTemplate facts;
    std::uint64_t memory = 0;  // bytes, its share (PSS)
  };
  /// Those that answer. Removes the names of those that are gone. Blocks: as stop() for each one.
  [[nodiscard]] std::vector<Entry> list() const;

  /// Ends all; returns those that were there. A running job goes on. Blocks: kAnswerLimit for each
  /// that does not answer, which is killed.
  [[nodiscard]] std::vector<Entry> stop() const;

  static constexpr std::chrono::milliseconds kAnswerLimit{1000};

 private:
  explicit WarmPool(PrivateDir directory) : directory_(std::move(directory)) {}
  [[nodiscard]] Descriptor connect(const std::string& name) const;
  [[nodiscard]] std::optional<Entry> describe(const std::string& name) const;
  void stop(const std::string& name) const;

  PrivateDir directory_;
};

/// What a process of ours inherits and an import could see, but for its environment: user, groups,
/// capabilities, limits, CPUs, cgroup, namespaces, directory, the kind of its stdin; and which file
/// `executable` is. Lines of the form "NAME: VALUE".
std::string inherited_state(const std::filesystem::path& executable);

/// One packet over `socket`, cut at `most` bytes. Nothing: none came in time, or it is closed.
std::optional<std::string> receive_packet(int socket,
                                          std::chrono::milliseconds limit,
                                          std::size_t most = 4096);

/// Who listens at the other end of `socket`; 0: not known.
pid_t listener_of(int socket);

}  // namespace ddp::launcher
