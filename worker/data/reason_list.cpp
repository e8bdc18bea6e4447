#include "worker/data/reason_list.h"

#include "common/text/one_line.h"

namespace ddp::worker {
namespace {

constexpr std::size_t kShown = 20;

}  // namespace

void ReasonList::add(std::string_view reason) {
  if (++size_ <= kShown) shown_ += "\n  " + one_line(reason, kLongestReason);
}

std::string ReasonList::to_text() const {
  if (size_ <= kShown) return shown_;
  return shown_ + "\n  and " + std::to_string(size_ - kShown) + " more";
}

}  // namespace ddp::worker
