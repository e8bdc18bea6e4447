#include "worker/task/metric.h"

#include <torch/torch.h>

#include <algorithm>
#include <stdexcept>

#include "common/error.h"
#include "common/text/split.h"

namespace ddp::worker {

std::string to_lines(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += name + "\n";
  return text;
}

void NamedSums::add(const std::vector<NamedTensor>& values) {
  const at::NoGradGuard no_grad;
  std::vector<std::string> names;
  std::vector<at::Tensor> numbers;
  for (const auto& [name, value] : values) {
    names.push_back(name);
    numbers.push_back(value.detach().to(at::kDouble).reshape({}));
  }
  if (names_.empty()) names_ = names;
  if (names != names_) throw std::logic_error("sums of other names than before");
  if (numbers.empty()) return;
  const at::Tensor all = at::stack(numbers);
  if (sums_.defined())
    sums_.add_(all);
  else
    sums_ = all;
}

void NamedSums::merge(Group& group) {
  const std::vector<std::string> texts = gather_texts(group, to_lines(names_));
  const auto known =
      std::ranges::find_if(texts, [](const std::string& text) { return !text.empty(); });
  if (known == texts.end()) return;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank].empty() || texts[rank] == *known) continue;
    throw UsageError("rank " + std::to_string(rank) + " has other values to show than rank " +
                     std::to_string(known - texts.begin()) +
                     ". A task gives the same names on every rank.");
  }
  const std::vector<std::string_view> lines = split_lines(*known);
  names_.assign(lines.begin(), lines.end());
  at::Tensor all = at::zeros({static_cast<std::int64_t>(names_.size())}, at::kDouble);
  if (sums_.defined()) all.copy_(sums_);
  group.all_reduce(all);
  sums_ = all;
}

NamedValues NamedSums::values() const {
  NamedValues values;
  const at::Tensor host = sums_.defined() ? sums_.cpu() : at::Tensor();
  for (std::size_t i = 0; i < names_.size(); ++i)
    values.emplace_back(names_[i], host.defined() ? host.data_ptr<double>()[i] : 0);
  return values;
}

void NamedSums::clear() {
  sums_ = at::Tensor();
}

}  // namespace ddp::worker
