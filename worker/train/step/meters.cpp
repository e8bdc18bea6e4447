#include "worker/train/step/meters.h"

#include <torch/torch.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

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

/// Loss, weight, parts and counts of a pass.
std::vector<NamedTensor> numbers_of(Task& task, const Pass& pass) {
  std::vector<NamedTensor> numbers{{kLoss, pass.loss.total}};
  if (pass.loss.weight.defined()) numbers.push_back({kWeight, pass.loss.weight});
  for (const auto& [name, part] : pass.loss.parts)
    numbers.push_back({kPartPrefix + name, part});
  for (const NamedTensor& count : task.counts(pass.outputs, pass.batch))
    numbers.push_back(count);
  return numbers;
}

bool has_weight(const std::vector<std::string>& names) {
  return std::ranges::find(names, kWeight) != names.end();
}

/// Whether a number is a mean over samples, as loss and parts are without a weight.
bool is_mean(const std::string& name, bool is_weighted) {
  return !is_weighted && (name == kLoss || is_part(name));
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
  std::vector<NamedTensor> numbers = numbers_of(task, pass);
  for (auto& [name, number] : numbers)
    if (is_mean(name, pass.loss.weight.defined()))
      number = number.detach().to(at::kDouble) * samples;
  device_.add(numbers);
}

void PassSums::merge(Group& group) {
  device_.merge(group);
  // The maximum, because a rank without a pass does not know the least weight.
  const at::Tensor all = group.all_gather(at::tensor({samples_, least_weight_}, at::kDouble));
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

void Meters::add_number(const at::Tensor& number) {
  const auto has_place = [&number](const Row& row) {
    return row.numbers[0].scalar_type() == number.scalar_type() &&
           row.numbers[0].device() == number.device();
  };
  auto row = std::ranges::find_if(running_.rows, has_place);
  if (row == running_.rows.end()) row = running_.rows.insert(row, Row{});
  row->positions.push_back(running_.count++);
  row->numbers.push_back(number.detach().reshape({}));
}

void Meters::add(Task& task, const Pass& pass) {
  const at::NoGradGuard no_grad;
  std::vector<std::string> names;
  for (const auto& [name, number] : numbers_of(task, pass)) {
    names.push_back(name);
    add_number(number);
  }
  running_.samples.push_back(static_cast<double>(pass.batch.size()));
  if (passed_names_.empty()) passed_names_ = names;
  if (names != passed_names_) throw std::logic_error("sums of other names than before");
}

void Meters::close_step(std::int64_t step, const at::Tensor& skips) {
  const at::NoGradGuard no_grad;
  // parallel: data may have moved the outputs to another device.
  if (skips.defined()) add_number(skips.to(running_.rows.at(0).numbers[0].device()));
  running_.step = step;
  for (Row& row : running_.rows) {
    const at::Tensor& first = row.numbers[0];
    const at::Device device = first.device();
    const at::Tensor all = row.numbers.size() == 1 ? first.reshape({1}) : at::stack(row.numbers);
    row.on_host =
        at::empty(all.sizes(), first.options().device(at::kCPU).pinned_memory(!device.is_cpu()));
    row.on_host.copy_(all, /*non_blocking=*/true);
    row.numbers.clear();
    if (device.is_cpu()) continue;
    if (!running_.arrived) running_.arrived.emplace(device.type());
    running_.arrived->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  sent_.push_back(std::exchange(running_, Sent{}));
}

std::optional<Meters::Closed> Meters::take(const Group& group, bool also_newest) {
  if (sent_.size() < (also_newest ? 1 : 2)) return {};
  const Sent sent = std::move(sent_.front());
  sent_.pop_front();
  if (sent.arrived) {
    group.await_device("step " + std::to_string(sent.step),
                       [&sent] { return sent.arrived->query(); });
  }
  std::vector<double> numbers(sent.count);
  for (const Row& row : sent.rows) {
    const at::Tensor in_float64 = row.on_host.to(at::kDouble);
    for (std::size_t i = 0; i < row.positions.size(); ++i)
      numbers[row.positions[i]] = in_float64.data_ptr<double>()[i];
  }
  Closed closed{sent.step, {}, 0};
  const std::size_t width = passed_names_.size();
  const bool is_weighted = has_weight(passed_names_);
  for (std::size_t pass = 0; pass < sent.samples.size(); ++pass) {
    double* const row = numbers.data() + pass * width;
    for (std::size_t i = 0; i < width; ++i)
      if (is_mean(passed_names_[i], is_weighted)) row[i] *= sent.samples[pass];
    closed.sums += read_row(passed_names_, row, sent.samples[pass]);
  }
  if (sent.count > sent.samples.size() * width) closed.skips = numbers.back();
  return closed;
}

}  // namespace ddp::worker
