#include "worker/train/step/meters.h"

#include <torch/torch.h>

#include <algorithm>

namespace ddp::worker {
namespace {

constexpr const char* kLoss = "loss";
constexpr const char* kWeight = "weight";
constexpr const char* kPartPrefix = "loss/";  // before the name of a part

void add_up(std::vector<double>& sums, const std::vector<double>& more) {
  sums.resize(std::max(sums.size(), more.size()));
  for (std::size_t i = 0; i < more.size(); ++i)
    sums[i] += more[i];
}

NamedValues means(const std::vector<std::string>& names,
                  const std::vector<double>& sums,
                  double divisor) {
  NamedValues values;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double sum = i < sums.size() ? sums[i] : 0;
    values.emplace_back(names[i], divisor > 0 ? sum / divisor : 0);
  }
  return values;
}

bool is_part(const std::string& name) {
  return name.starts_with(kPartPrefix);
}

/// `row` holds the sums of `names`.
StepSums read_row(const std::vector<std::string>& names, const double* row, double samples) {
  StepSums sums;
  sums.samples = samples;
  sums.weight = samples;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == kLoss) {
      sums.loss = row[i];
    } else if (names[i] == kWeight) {
      sums.weight = row[i];
    } else {
      (is_part(names[i]) ? sums.parts : sums.counts).push_back(row[i]);
    }
  }
  return sums;
}

}  // namespace

StepSums& StepSums::operator+=(const StepSums& more) {
  samples += more.samples;
  loss += more.loss;
  weight += more.weight;
  add_up(parts, more.parts);
  add_up(counts, more.counts);
  least_weight = std::max(least_weight, more.least_weight);
  return *this;
}

std::vector<double> SumNames::to_row(const StepSums& sums) {
  std::vector<double> row{sums.samples, sums.loss, sums.weight};
  row.insert(row.end(), sums.parts.begin(), sums.parts.end());
  row.insert(row.end(), sums.counts.begin(), sums.counts.end());
  return row;
}

StepSums SumNames::to_sums(std::span<const double> row) const {
  const auto parts_end = row.begin() + 3 + static_cast<std::ptrdiff_t>(parts.size());
  return {
      row[0], row[1], row[2], {row.begin() + 3, parts_end}, {parts_end, row.end()}, least_weight};
}

NamedValues SumNames::part_means(const StepSums& sums) const {
  return means(parts, sums.parts, sums.divisor());
}

NamedValues SumNames::count_means(const StepSums& sums) const {
  return means(counts, sums.counts, sums.samples);
}

void PassSums::add(Task& task, const Pass& pass) {
  const at::NoGradGuard no_grad;
  const double samples = static_cast<double>(pass.batch.size());
  samples_ += samples;
  least_weight_ = std::max(least_weight_, pass.loss.least_weight);
  const bool has_weight = pass.loss.weight.defined();
  const auto to_sum = [&](const at::Tensor& value) {
    const at::Tensor wide = value.detach().to(at::kDouble);
    return has_weight ? wide : wide * samples;
  };
  std::vector<NamedTensor> values{{kLoss, to_sum(pass.loss.total)}};
  if (has_weight) values.push_back({kWeight, pass.loss.weight});
  for (const auto& [name, part] : pass.loss.parts)
    values.push_back({kPartPrefix + name, to_sum(part)});
  for (const NamedTensor& count : task.counts(pass.outputs, pass.batch))
    values.push_back(count);
  device_.add(values);
}

void PassSums::merge(Group& group) {
  device_.merge(group);
  // A rank without a pass does not know the least weight.
  const at::Tensor all = group.gather(at::tensor({samples_, least_weight_}, at::kDouble));
  samples_ = all.select(1, 0).sum().item<double>();
  least_weight_ = all.select(1, 1).max().item<double>();
}

SumNames PassSums::names() const {
  SumNames names;
  names.least_weight = least_weight_;
  for (const std::string& name : device_.names()) {
    if (name == kLoss || name == kWeight) continue;
    if (is_part(name))
      names.parts.push_back(name.substr(std::string_view(kPartPrefix).size()));
    else
      names.counts.push_back(name);
  }
  return names;
}

StepSums PassSums::sums() const {
  if (!device_.sums().defined()) return {};
  const at::Tensor row = device_.sums().cpu();
  StepSums sums = read_row(device_.names(), row.data_ptr<double>(), samples_);
  sums.least_weight = least_weight_;
  return sums;
}

void Meters::close_step(std::int64_t step, const at::Tensor& skips) {
  const at::NoGradGuard no_grad;
  at::Tensor sums = running_.device_.sums();
  if (skips.defined()) sums = at::cat({sums, skips.to(sums.options()).reshape({1})});
  Sent& sent = sent_.emplace_back();
  sent.step = step;
  sent.samples = running_.samples_;
  sent.has_skips = skips.defined();
  if (!sums.is_cpu()) {
    sent.row = at::empty(sums.sizes(), at::TensorOptions(at::kDouble).pinned_memory(true));
    sent.row.copy_(sums, /*non_blocking=*/true);
    sent.arrived.emplace(sums.device().type());
    sent.arrived->record(
        c10::impl::VirtualGuardImpl(sums.device().type()).getStream(sums.device()));
  } else {
    sent.row = sums.clone();
  }
  running_.device_.clear();
  running_.samples_ = 0;
}

std::optional<Meters::Closed> Meters::take(const Group& group, bool also_newest) {
  if (sent_.size() < (also_newest ? 1 : 2)) return {};
  const Sent sent = std::move(sent_.front());
  sent_.pop_front();
  if (sent.arrived) {
    group.await_device("step " + std::to_string(sent.step),
                       [&sent] { return sent.arrived->query(); });
  }
  const double* const row = sent.row.data_ptr<double>();
  return Closed{sent.step,
                read_row(running_.device_.names(), row, sent.samples),
                sent.has_skips ? row[sent.row.numel() - 1] : 0};
}

}  // namespace ddp::worker
