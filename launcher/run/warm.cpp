#include "launcher/run/warm.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>

#include "launcher/os/scratch_dir.h"
#include "launcher/os/warm_pool.h"
#include "launcher/plan/output/console_text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kLongestWord = 200;  // of a path or a list of modules

/// "12s", "3min 20s".
std::string describe_time(std::int64_t seconds) {
  const std::string rest = std::to_string(seconds % 60) + "s";
  return seconds < 60 ? rest : std::to_string(seconds / 60) + "min " + rest;
}

std::string describe(const WarmPool::Entry& entry) {
  const WarmTemplate& facts = entry.facts;
  const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  std::ostringstream text;
  text << "pid " << facts.pid << ": " << plain_line(facts.modules, kLongestWord) << " for "
       << plain_line(facts.script, kLongestWord) << ", by "
       << plain_line(facts.python, kLongestWord) << "; " << facts.jobs
       << (facts.jobs == 1 ? " job" : " jobs") << " in "
       << describe_time(std::max<std::int64_t>(now - facts.begin, 0)) << ", "
       << (entry.memory >> 20) << " MiB, " << describe_time(facts.idle_left) << " left\n";
  return text.str();
}

}  // namespace

std::string answer_warm(const VerbRequest& request, const Environment& environment) {
  std::string warning;
  std::string text;
  for (const PrivateDir& place : find_scratch_places(environment, warning)) {
    const std::optional<WarmPool> pool = WarmPool::open(place.path());
    if (!pool) continue;
    for (const WarmPool::Entry& entry : request.stop ? pool->stop() : pool->list())
      text += (request.stop ? "ended: " : "") + describe(entry);
  }
  if (!warning.empty()) std::cerr << "ddp-launch: " << warning << "\n";
  return text.empty() ? "no template is warm\n" : text;
}

}  // namespace ddp::launcher
