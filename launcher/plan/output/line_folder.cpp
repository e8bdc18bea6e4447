#include "launcher/plan/output/line_folder.h"

#include <algorithm>

namespace ddp::launcher {
namespace {

constexpr std::size_t kLineBytes = 128;  // of a waiting line besides its text

}  // namespace

void LineFolder::add(int rank, std::string_view text, Time now) {
  // It may join any line after the last one of its rank, so each rank's order is kept.
  const auto last = last_.find(rank);
  const std::size_t from = last == last_.end() ? first_ : std::max(first_, last->second + 1);
  if (const auto equal = numbers_.find(text); equal != numbers_.end()) {
    const auto& numbers = equal->second;
    const auto found = std::ranges::lower_bound(numbers, from);
    if (found != numbers.end()) {
      std::vector<int>& ranks = lines_[*found - first_].ranks;
      ranks.insert(std::ranges::lower_bound(ranks, rank), rank);
      last_[rank] = *found;
      return;
    }
  }
  const std::size_t number = first_ + lines_.size();
  lines_.push_back(Line{{rank}, std::string(text), now});
  numbers_[std::string(text)].push_back(number);
  last_[rank] = number;
  bytes_ += text.size() + kLineBytes;
}

LineFolder::Line LineFolder::take_front() {
  Line line = std::move(lines_.front());
  lines_.pop_front();
  const auto equal = numbers_.find(line.text);
  equal->second.pop_front();
  if (equal->second.empty()) numbers_.erase(equal);
  ++first_;
  bytes_ -= line.text.size() + kLineBytes;
  return line;
}

std::vector<LineFolder::Line> LineFolder::take_due(Time now) {
  std::vector<Line> due;
  while (!lines_.empty() && (now - lines_.front().since >= kWindow || bytes_ > kLimit ||
                             lines_.front().ranks.size() == ranks_)) {
    due.push_back(take_front());
  }
  return due;
}

std::vector<LineFolder::Line> LineFolder::take_all() {
  std::vector<Line> all;
  while (!lines_.empty())
    all.push_back(take_front());
  return all;
}

}  // namespace ddp::launcher
