#include "worker/save/failpoint.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <optional>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"

namespace ddp::worker {
namespace {

struct Armed {
  std::string name;
  std::string action;
  int value = 0;
  int at = 1;
  std::atomic<int> passes{0};
};

std::deque<Armed>& armed() {
  static std::deque<Armed> all;
  return all;
}

/// The part of `text` after the last `mark`; cuts both off `text`.
std::optional<std::string_view> take_behind(std::string_view& text, char mark) {
  const std::size_t place = text.rfind(mark);
  if (place == std::string_view::npos) return {};
  const std::string_view behind = text.substr(place + 1);
  text = text.substr(0, place);
  return behind;
}

bool take_number(std::string_view& text, char mark, int& value) {
  const std::optional<std::string_view> behind = take_behind(text, mark);
  if (!behind) return true;
  const std::optional<int> number = parse_whole<int>(*behind, 0);
  value = number.value_or(value);
  return number.has_value();
}

void arm(std::string_view text) {
  constexpr std::array<std::string_view, 3> kPlain{"kill", "stop", "abort"};
  constexpr std::array<std::string_view, 3> kValued{"exit", "error", "sleep"};
  const std::string whole(text);
  Armed& point = armed().emplace_back();
  bool is_good = take_number(text, '@', point.at) && point.at > 0;
  const bool has_value = text.find(':') != std::string_view::npos;
  is_good = take_number(text, ':', point.value) && is_good;
  point.action = take_behind(text, '=').value_or("");
  point.name = text;
  is_good = is_good && (has_value ? std::ranges::find(kValued, point.action) != kValued.end()
                                  : std::ranges::find(kPlain, point.action) != kPlain.end());
  if (is_good && std::ranges::find(kFailpoints, point.name) != kFailpoints.end()) return;
  throw UsageError("DDP_FAILPOINTS: \"" + whole +
                   "\" is not NAME=ACTION[@N] with an action of kill, stop, abort, exit:CODE, "
                   "error:ERRNO or sleep:MILLISECONDS and a name of " +
                   join_words(kFailpoints) + ".");
}

void act(const Armed& point) {
  if (point.action == "kill") ::raise(SIGKILL);
  if (point.action == "stop") ::raise(SIGSTOP);
  if (point.action == "abort") std::abort();
  if (point.action == "exit") ::_exit(point.value);
  if (point.action == "sleep") ::poll(nullptr, 0, point.value);
  if (point.action == "error")
    throw SystemError(system_message("failpoint", point.name, point.value));
}

}  // namespace

void arm_failpoints(const std::string& text) {
  for (const std::string& point : split_words(text))
    arm(point);
}

void failpoint(std::string_view name) {
  const Armed* due = nullptr;
  for (Armed& point : armed()) {
    if (point.name == name && point.passes.fetch_add(1) + 1 == point.at) due = &point;
  }
  if (due != nullptr) act(*due);
}

}  // namespace ddp::worker
