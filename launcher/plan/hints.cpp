#include "launcher/plan/hints.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace ddp::launcher {
namespace {

constexpr std::string_view kDash = "--local-rank";
constexpr std::string_view kUnderscore = "--local_rank";

std::string flag_for(std::string_view spelling) {
  return spelling == kDash ? "--append-local-rank" : "--append-local-rank=underscore";
}

bool contains(const std::string& line, std::string_view part) {
  return line.find(part) != std::string::npos;
}

/// As argparse, click and absl say it.
bool is_refusal(const std::string& line) {
  constexpr std::array kWords{
      "unrecognized arguments", "No such option", "no such option", "Unknown command line flag"};
  return std::any_of(
      kWords.begin(), kWords.end(), [&](const char* words) { return contains(line, words); });
}

}  // namespace

std::optional<std::string> hint_for(const std::vector<std::string>& last_lines,
                                    const std::string& local_rank_flag) {
  for (const std::string& line : last_lines) {
    for (const std::string_view spelling : {kDash, kUnderscore}) {
      if (!contains(line, spelling)) continue;
      if (contains(line, "arguments are required") && spelling != local_rank_flag) {
        return "the script wants " + std::string(spelling) + " as an argument: start it with " +
               flag_for(spelling) + ".";
      }
      if (is_refusal(line) && spelling == local_rank_flag) {
        const std::string_view other = spelling == kDash ? kUnderscore : kDash;
        return "the script does not know " + local_rank_flag + "; if it knows " +
               std::string(other) + ", start it with " + flag_for(other) +
               ", and if it reads LOCAL_RANK, without --append-local-rank.";
      }
    }
  }
  return {};
}

}  // namespace ddp::launcher
