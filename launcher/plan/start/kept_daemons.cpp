#include "launcher/plan/start/kept_daemons.h"

#include <regex.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "common/text/join_words.h"
#include "launcher/plan/output/console_text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostNamed = 3;
constexpr std::size_t kMostOfCommand = 80;  // bytes

std::string name_all(std::optional<int> rank, std::span<const LeftoverProcess> processes) {
  std::string text = rank ? "rank " + std::to_string(*rank) : "a rank";
  text += " left " +
          (processes.size() == 1 ? "a process" : std::to_string(processes.size()) + " processes") +
          " behind: ";
  std::string named;
  for (const LeftoverProcess& process : processes.first(std::min(processes.size(), kMostNamed))) {
    const std::string command = plain_line(process.command, kMostOfCommand);
    add_word(named, "pid " + std::to_string(process.pid) + " (" + command + ")", ", ");
  }
  return text + named + (processes.size() > kMostNamed ? ", ..." : "");
}

}  // namespace

// glibc's matcher, not std::regex, which recurses: a command line may be as long as it likes.
struct KeptDaemons::Pattern {
  regex_t compiled{};
  int error = 0;
  explicit Pattern(const std::string& text)
      : error(::regcomp(&compiled, text.c_str(), REG_EXTENDED | REG_NOSUB)) {}
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() {
    if (error == 0) ::regfree(&compiled);
  }
};

std::optional<std::string> KeptDaemons::problem_of(const std::string& text) {
  const Pattern pattern(text);
  if (pattern.error == 0) return std::nullopt;
  std::array<char, 128> why{};
  ::regerror(pattern.error, &pattern.compiled, why.data(), why.size());
  return why.data();
}

KeptDaemons::KeptDaemons(const std::vector<std::string>& patterns) {
  for (const std::string& text : patterns)
    patterns_.push_back(std::make_unique<Pattern>(text));
}

KeptDaemons::~KeptDaemons() = default;

bool KeptDaemons::has(const std::string& command) const {
  return std::ranges::any_of(patterns_, [&](const std::unique_ptr<Pattern>& pattern) {
    return ::regexec(&pattern->compiled, command.c_str(), 0, nullptr, 0) == 0;
  });
}

std::string describe_killed(std::optional<int> rank, std::span<const LeftoverProcess> processes) {
  const std::string they = processes.size() == 1 ? "it is" : "they are";
  return name_all(rank, processes) + "; " + they +
         " killed. To leave one running, name it in --keep-daemons.";
}

std::string describe_kept(std::optional<int> rank, std::span<const LeftoverProcess> processes) {
  const std::string they = processes.size() == 1 ? "it is" : "they are";
  return name_all(rank, processes) + "; " + they + " left running (--keep-daemons)";
}

}  // namespace ddp::launcher
