// Processes that workers leave behind: which of them live on (--keep-daemons), and how both kinds
// are named. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp::launcher {

/// The patterns of --keep-daemons: extended regular expressions, as pgrep -f takes them.
class KeptDaemons {
 public:
  /// Why the text is not such an expression; nothing: it is one.
  static std::optional<std::string> problem_of(const std::string& text);

  /// Precondition: none has a problem.
  explicit KeptDaemons(const std::vector<std::string>& patterns);
  ~KeptDaemons();
  KeptDaemons(const KeptDaemons&) = delete;
  KeptDaemons& operator=(const KeptDaemons&) = delete;

  [[nodiscard]] bool is_empty() const { return patterns_.empty(); }
  /// Whether a process with this command line is left running.
  [[nodiscard]] bool has(const std::string& command) const;

 private:
  struct Pattern;
  std::vector<std::unique_ptr<Pattern>> patterns_;
};

struct LeftoverProcess {
  std::int64_t pid = 0;
  std::string command;
};

/// One line that names the first of them: a rank left them behind, and they are killed, or are
/// left running. Nothing as rank: it is not known. Precondition: there is one.
std::string describe_killed(std::optional<int> rank, std::span<const LeftoverProcess> processes);
std::string describe_kept(std::optional<int> rank, std::span<const LeftoverProcess> processes);

}  // namespace ddp::launcher
