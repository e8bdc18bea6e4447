#include "launcher/plan/web/job_view.h"

namespace ddp::launcher {

std::string_view to_text(JobView::Shown state) {
  constexpr std::string_view kNames[] = {"waiting", "running", "stopping", "over"};
  return kNames[static_cast<std::size_t>(state)];
}

const JobView::Rank* first_with_page(const JobView& job) {
  const JobView::Rank* first = nullptr;
  for (const JobView::Rank& rank : job.ranks) {
    if (!rank.sample.has_page) continue;
    if (!rank.ended) return &rank;
    if (first == nullptr) first = &rank;
  }
  return first;
}

}  // namespace ddp::launcher
