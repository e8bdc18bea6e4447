#include "launcher/plan/start/prefix.h"

#include <array>

#include "launcher/plan/start/substitution.h"

namespace ddp::launcher {
namespace {

constexpr char kTime = '\0';  // a byte that no argument, and so no template, contains

// Not red, which is for errors, and neither black nor white, which may be the background.
constexpr std::array<std::string_view, 10> kColors = {
    "36", "33", "32", "35", "34", "96", "93", "92", "95", "94"};

}  // namespace

Prefix::Prefix(const LogSpec& spec, const StreamPlan& plan, const PrefixFacts& facts) {
  const std::string rank = std::to_string(facts.placement.rank);
  const std::string local_rank = std::to_string(facts.placement.local_rank);
  const std::string node_rank = std::to_string(facts.placement.node_rank);
  if (spec.prefix) {
    text_ = substitute(*spec.prefix,
                       {{"role_name", facts.role},
                        {"rank", rank},
                        {"local_rank", local_rank},
                        {"node_rank", node_rank},
                        {"hostname", facts.host},
                        {"pid", std::to_string(facts.pid)},
                        {"stream", std::string(to_text(facts.stream))},
                        {"time", std::string(1, kTime)}});
  } else if (plan.is_teed) {
    text_ = "[" + facts.role + local_rank + "]:";
  } else {
    text_ = "[" + node_rank + ":" + rank + "] ";
  }
  tells_time_ = text_.find(kTime) != std::string::npos;
}

void Prefix::set_color(int rank) {
  const std::string_view color = kColors[static_cast<std::size_t>(rank) % kColors.size()];
  text_ = "\x1b[" + std::string(color) + "m" + text_ + "\x1b[0m";
}

std::string Prefix::text(std::string_view time) const {
  if (!tells_time_) return text_;
  std::string text;
  for (const char c : text_) {
    if (c == kTime) {
      text += time;
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace ddp::launcher
