#include "launcher/plan/web/job_view.h"

namespace ddp::launcher {

std::string_view to_text(JobView::State state) {
  switch (state) {
    case JobView::State::waiting:
      return "waiting";
    case JobView::State::running:
      return "running";
    case JobView::State::stopping:
      return "stopping";
    case JobView::State::over:
      break;
  }
  return "over";
}

const JobView::Rank* leading_rank(const JobView& job) {
  const JobView::Rank* leading = nullptr;
  for (const JobView::Rank& rank : job.ranks) {
    if (!rank.sample.has_page) continue;
    if (leading == nullptr || rank.sample.step > leading->sample.step) leading = &rank;
  }
  return leading;
}

}  // namespace ddp::launcher
