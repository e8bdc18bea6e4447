#include "worker/train/bad_data.h"

#include <ATen/ops/tensor.h>

#include <map>
#include <sstream>
#include <string>

#include "common/cli/log.h"
#include "common/error.h"
#include "common/text/one_line.h"
#include "worker/data/reason_list.h"

namespace ddp::worker {
namespace {

using Bad = std::map<std::int64_t, std::string>;

std::string to_lines(const Bad& samples) {
  std::string text;
  for (const auto& [index, reason] : samples)
    text += std::to_string(index) + " " + one_line(reason, kLongestReason) + "\n";
  return text;
}

void read_lines(const std::string& text, Bad& into) {
  std::istringstream lines(text);
  std::int64_t index = 0;
  for (std::string reason; lines >> index && std::getline(lines >> std::ws, reason);)
    into[index] = reason;
}

std::string samples(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " sample" : " samples");
}

}  // namespace

bool BadData::is_too_many(double bad, const DataFacts& data) const {
  return bad > share_ * static_cast<double>(data.count);
}

std::optional<int> BadData::report(BatchLoader& loader) {
  const Bad mine = loader.take_bad_samples();
  const auto count = static_cast<double>(mine.size());
  const double all =
      group_.start_all_reduce(at::tensor({count}, at::kDouble))->wait().item<double>();
  if (all == 0) return {};
  Bad found;
  for (const std::string& text : gather_texts(group_, to_lines(mine)))
    read_lines(text, found);
  const DataFacts& data = loader.facts();
  const bool is_end = is_too_many(all, data);
  if (group_.is_root()) {
    ReasonList fresh;
    for (const auto& [index, reason] : found)
      if (listed_.emplace(data.name, index).second || is_end) fresh.add(reason);
    const std::string said = data.name + ": " + samples(found.size()) + " of " +
                             std::to_string(data.count) + " cannot be read";
    if (is_end) {
      log::error(said + ", more than data.max_bad allows. Mend or remove them, or raise " +
                 "data.max_bad:" + fresh.to_text());
    } else if (fresh.size() > 0) {
      log::warning(said + ", others take their place:" + fresh.to_text());
    }
  }
  return is_end ? std::optional(exit_code::kUsage) : std::nullopt;
}

}  // namespace ddp::worker
