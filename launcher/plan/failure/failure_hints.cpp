#include "launcher/plan/failure/failure_hints.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/text/contains.h"
#include "common/text/join_words.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kDash = "--local-rank";
constexpr std::string_view kUnderscore = "--local_rank";

std::string flag_for(std::string_view spelling) {
  return spelling == kDash ? "--append-local-rank" : "--append-local-rank=underscore";
}

/// Whether argparse, click or absl refuses an argument by this line.
bool is_refusal(const std::string& line) {
  constexpr std::array kWords{
      "unrecognized arguments", "No such option", "no such option", "Unknown command line flag"};
  return std::ranges::any_of(kWords, [&](const char* words) { return contains(line, words); });
}

/// The hint for a script that reads its local rank from its arguments.
std::optional<std::string> hint_of_rank(const std::string& line, const std::string& given) {
  for (const std::string_view spelling : {kDash, kUnderscore}) {
    if (!contains(line, spelling)) continue;
    if (contains(line, "arguments are required") && spelling != given) {
      return "the script wants " + std::string(spelling) + " as an argument: start it with " +
             flag_for(spelling) + ".";
    }
    if (is_refusal(line) && spelling == given) {
      const std::string_view other = spelling == kDash ? kUnderscore : kDash;
      return "the script does not know " + given + "; if it knows " + std::string(other) +
             ", start it with " + flag_for(other) +
             ", and if it reads LOCAL_RANK, without --append-local-rank.";
    }
  }
  return {};
}

std::optional<std::string> hint_of_torch(const std::string& line, const StartedAs& started) {
  if (!line.starts_with("ModuleNotFoundError: No module named 'torch")) return {};
  if (started.python.empty())
    return "the Python that ran has no torch: activate the environment that has it.";
  std::vector<std::string> others;
  if (started.find_others) others = started.find_others();
  std::erase(others, started.python);
  const std::string head = started.python + " ran it, and has no torch";
  if (others.empty())
    return head + ": activate the environment that has it, or name its Python: " +
           "PYTHON_EXEC=ENVIRONMENT/bin/python3.";
  return head + "; " + join_words(others, ", ") + (others.size() == 1 ? " has" : " have") +
         " it: activate that environment, or name its Python: PYTHON_EXEC=" + others.front();
}

/// The hint for a line of ld.so(8): "PROGRAM: error while loading shared libraries: LIBRARY: cannot
/// open ...".
std::optional<std::string> hint_of_library(const std::string& line) {
  constexpr std::string_view kWords = ": error while loading shared libraries: ";
  const std::size_t words = line.find(kWords);
  const std::size_t end = line.find(": cannot open shared object file");
  const std::size_t begin = words + kWords.size();
  if (words == std::string::npos || end == std::string::npos || end < begin) return {};
  const std::string library = line.substr(begin, end - begin);
  const bool is_torch = library.starts_with("libtorch") || library.starts_with("libc10");
  return line.substr(0, words) + " is there, its shared library " + library + " is not: " +
         (is_torch ? "it comes with LibTorch, which was moved or removed. Build the program again, "
                     "or name its directory in LD_LIBRARY_PATH."
                   : "install it, or name its directory in LD_LIBRARY_PATH.");
}

/// The hint for another line of it: "PROGRAM: symbol lookup error: FILE: undefined symbol: NAME",
/// with a name of LibTorch's.
std::optional<std::string> hint_of_symbol(const std::string& line) {
  const std::size_t words = line.find(": symbol lookup error: ");
  const std::size_t symbol = line.find(": undefined symbol: ");
  if (words == std::string::npos || symbol == std::string::npos) return {};
  constexpr std::array kNamespaces{"2at", "3c10", "4c10d", "5torch"};  // mangled
  const bool is_torch = std::ranges::any_of(
      kNamespaces, [&](const char* name) { return line.find(name, symbol) != std::string::npos; });
  if (!is_torch) return {};
  return line.substr(0, words) +
         " was built for another release of LibTorch than the one that is loaded in its place: "
         "unset LD_PRELOAD or LD_LIBRARY_PATH, whichever names that one.";
}

}  // namespace

std::optional<std::string> hint_for(const std::vector<std::string>& last_lines,
                                    const StartedAs& started) {
  for (const std::string& line : last_lines) {
    if (auto hint = hint_of_rank(line, started.local_rank_flag)) return hint;
    if (auto hint = hint_of_torch(line, started)) return hint;
    if (auto hint = hint_of_library(line)) return hint;
    if (auto hint = hint_of_symbol(line)) return hint;
  }
  return {};
}

}  // namespace ddp::launcher
