#include "launcher/plan/start/wrapper.h"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <optional>
#include <ranges>

#include "common/text/join_words.h"
#include "common/text/shell_quotes.h"
#include "common/text/split.h"

namespace ddp::launcher {
namespace {

bool is_for(const Wrapper& wrapper, int rank) {
  return wrapper.ranks.empty() || std::ranges::any_of(wrapper.ranks, [rank](RankRange range) {
           return range.first <= rank && rank <= range.last;
         });
}

/// Whether the last words of `command` are `words`, the first of them perhaps with a path.
bool ends_with_words(std::string_view command, std::string_view words) {
  if (!command.ends_with(words)) return false;
  const std::string_view before = command.substr(0, command.size() - words.size());
  return before.empty() || before.ends_with(' ') || before.ends_with('/');
}

}  // namespace

std::variant<Wrapper, std::string> read_wrapper(std::string_view text) {
  const std::string shown = "\"" + std::string(text) + "\": ";
  const std::size_t colon = text.find(':');
  const std::string_view ranks = text.substr(0, colon);
  Wrapper wrapper;
  for (const std::string_view part : split(ranks, ',')) {
    const auto range = read_rank_range(part);
    if (range) wrapper.ranks.push_back(*range);
    if (colon != std::string_view::npos && (range || ranks == "all")) continue;
    return shown + "write RANKS:COMMAND, the ranks as 0, 0,2-3 or all.";
  }
  auto words = split_shell_words(text.substr(colon + 1));
  if (!words) return shown + "a quote is not closed, or a backslash ends the command.";
  if (words->empty() || words->front().empty()) return shown + "the command is empty.";
  wrapper.words = std::move(*words);
  return wrapper;
}

bool is_wrapped(std::span<const Wrapper> wrappers, int rank) {
  return std::ranges::any_of(wrappers, [rank](const Wrapper& one) { return is_for(one, rank); });
}

std::string fill_wrapper(std::string_view word,
                         const Placement& placement,
                         const std::string& host) {
  std::string filled;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char letter = word[i] == '%' && i + 1 < word.size() ? word[i + 1] : '\0';
    std::optional<std::string> value;
    if (letter == 'r') value = std::to_string(placement.rank);
    if (letter == 'l') value = std::to_string(placement.local_rank);
    if (letter == 'n') value = std::to_string(placement.node_rank);
    if (letter == 'h') value = host;
    if (letter == '%') value = "%";
    filled += value ? *value : std::string(1, word[i]);
    if (value) ++i;
  }
  return filled;
}

void wrap(Command& command,
          std::span<const Wrapper> wrappers,
          const Placement& placement,
          const std::string& host) {
  for (const Wrapper& wrapper : std::views::reverse(wrappers)) {
    if (!is_for(wrapper, placement.rank)) continue;
    std::vector<std::string> words;
    for (const std::string& word : wrapper.words)
      words.push_back(fill_wrapper(word, placement, host));
    command.arguments.front() = command.executable;  // the path: a wrapper may not search for it
    command.executable = words.front();
    command.arguments.insert(command.arguments.begin(), words.begin(), words.end());
  }
}

std::string program_line(const Command& program) {
  std::string line = program.executable.substr(program.executable.rfind('/') + 1);
  for (const std::string& argument : program.arguments | std::views::drop(1))
    line += " " + argument;
  return line.substr(0, line.find_last_not_of(' ') + 1);  // empty words at the end are not shown
}

pid_t find_wrapped(std::span<const SessionProcess> session,
                   std::string_view program_line,
                   pid_t leader) {
  const auto of = [&](pid_t pid) { return std::ranges::find(session, pid, &SessionProcess::pid); };
  pid_t found = leader;
  auto here = of(leader);
  while (here != session.end()) {
    const std::vector<pid_t> tree = tree_of(session, found);
    // Forks have the command line of what has forked them.
    const auto next = std::ranges::find_if(tree, [&](pid_t pid) {
      const auto one = of(pid);
      return one != session.end() && one->command != here->command &&
             ends_with_words(one->command, program_line);
    });
    if (next == tree.end()) break;
    found = *next;
    here = of(found);
  }
  return found;
}

ExitStatus seen_through_wrapper(ExitStatus status) {
  const int signal = status.code - 128;
  const bool is_signal = signal > 0 && signal < SIGRTMIN && signal != SIGTERM;
  return status.signal == 0 && is_signal ? ExitStatus{0, signal, false} : status;
}

std::vector<pid_t> tree_of(std::span<const SessionProcess> session, pid_t root) {
  std::vector<pid_t> tree{root};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    for (const SessionProcess& process : session) {
      if (process.parent == tree[i] && process.pid != root) tree.push_back(process.pid);
    }
  }
  return tree;
}

}  // namespace ddp::launcher
