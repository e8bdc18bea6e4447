#include "worker/save/checkpoint/weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "common/error.h"
#include "common/text/one_line.h"
#include "worker/save/checkpoint/checkpoint.h"
#include "worker/save/checkpoint/tensor_copy.h"
#include "worker/save/format/torch_file.h"

namespace ddp::worker {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes{"module.", "_orig_mod."};
// Of modules that hold a model, as Lightning's; part of a name in others, as YOLO's.
constexpr std::array<std::string_view, 2> kHolders{"model.", "net."};
constexpr std::size_t kShown = 8;  // names per line

bool is_real(std::string_view dtype) {
  return dtype.starts_with('F') || dtype == "BF16";
}

// `name` as the model spells it; prefixes that were cut off are added to `prefixes`.
std::string cut_prefixes(std::string name,
                         const std::set<std::string>& wanted,
                         std::set<std::string>& prefixes) {
  for (bool is_cut = true; is_cut && !wanted.contains(name);) {
    is_cut = false;
    for (const std::string_view prefix : kPrefixes) {
      if (!name.starts_with(prefix)) continue;
      name.erase(0, prefix.size());
      prefixes.emplace(prefix);
      is_cut = true;
    }
  }
  for (const std::string_view holder : kHolders) {
    if (wanted.contains(name) || !name.starts_with(holder) ||
        !wanted.contains(name.substr(holder.size())))
      continue;
    name.erase(0, holder.size());
    prefixes.emplace(holder);
  }
  return name;
}

// The tensors of a file, by their names in the model.
std::map<std::string, const TensorView*> match_names(const std::vector<TensorView>& tensors,
                                                     const std::set<std::string>& wanted,
                                                     LoadReport& report) {
  std::map<std::string, const TensorView*> found;
  std::set<std::string> prefixes;
  for (const TensorView& saved : tensors) {
    const std::string name = cut_prefixes(saved.name, wanted, prefixes);
    if (!found.emplace(name, &saved).second)
      throw UsageError(report.file + ": without its prefix, \"" + saved.name + "\" is there twice");
  }
  report.prefixes.assign(prefixes.begin(), prefixes.end());
  return found;
}

using Copies = std::vector<std::pair<at::Tensor, const TensorView*>>;

// Whether it is a copied tensor under a second name, as Python's tied weights.
bool is_second_name(const TensorView& saved, const Copies& copies) {
  return !saved.bytes.empty() && std::ranges::any_of(copies, [&](const auto& copy) {
    const TensorView& first = *copy.second;
    return first.bytes.data() == saved.bytes.data() && first.dtype == saved.dtype &&
           first.shape == saved.shape && first.strides == saved.strides;
  });
}

// Refuses other files: SGD's momentum has the names and shapes of the weights. Errors: UsageError.
void require_weights(const TensorFile& file, const std::string& name) {
  const auto content = file.metadata().find(kContentKey);
  if (content == file.metadata().end() || content->second == kModelContent) return;
  throw UsageError(name + ": it holds the " + one_line(content->second, 40) +
                   " of a checkpoint, not weights. Give the model.safetensors of that checkpoint.");
}

// Why a tensor of the file cannot be copied; "" when it can.
std::string difference(const TensorView& saved, const at::Tensor& tensor) {
  const std::string dtype = dtype_name(tensor.scalar_type());
  const bool same_shape = tensor.sizes() == saved.shape;
  const bool same_kind = dtype == saved.dtype || (is_real(dtype) && is_real(saved.dtype));
  if (same_shape && same_kind) return {};
  std::string text = describe(saved.dtype, saved.shape) + " in the file, " +
                     describe(dtype, tensor.sizes()) + " in the model";
  const std::size_t count = tensor_bytes(saved.dtype, saved.shape) / dtype_size(saved.dtype);
  if (!same_shape && count == static_cast<std::size_t>(tensor.numel()))
    text += ", the same number of values";
  return text;
}

std::string list(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), kShown); ++i)
    text += (i > 0 ? ", " : "") + one_line(items[i]);
  if (items.size() > kShown) text += " and " + std::to_string(items.size() - kShown) + " more";
  return text;
}

std::string counts(const LoadReport& report) {
  return std::to_string(report.loaded) + " of the model's " + std::to_string(report.wanted) +
         " tensors";
}

std::vector<std::string> problems_of(const LoadReport& report) {
  std::vector<std::string> problems;
  for (const std::string& text : report.different)
    problems.push_back(report.file + ": " + one_line(text));
  if (!report.missing.empty())
    problems.push_back(report.file + ": it lacks " + list(report.missing));
  if (!report.unexpected.empty())
    problems.push_back(report.file + ": not in the model: " + list(report.unexpected));
  if (!problems.empty() && report.loaded == 0)
    problems.push_back(report.file + ": nothing of it fits: " + counts(report) +
                       ". Is it of another model?");
  else if (!problems.empty())
    problems.push_back(report.file + ": set model.strict: false to load what fits, " +
                       counts(report) + ".");
  return problems;
}

}  // namespace

std::string model_name(const std::string& saved, const std::set<std::string>& wanted) {
  std::set<std::string> ignored;
  return cut_prefixes(saved, wanted, ignored);
}

LoadReport load_weights(const std::filesystem::path& path,
                        std::vector<NamedTensor>& state,
                        bool strict,
                        bool trust) {
  const TensorFile file = read_tensor_file(path, trust);
  require_weights(file, path.string());
  return load_weights(file.tensors(), path.string(), state, strict);
}

LoadReport load_weights(const std::vector<TensorView>& tensors,
                        const std::string& file,
                        std::vector<NamedTensor>& state,
                        bool strict) {
  const at::NoGradGuard no_grad;
  LoadReport report;
  report.file = file;
  report.wanted = state.size();
  std::set<std::string> wanted;
  for (const NamedTensor& one : state)
    wanted.insert(one.name);
  const std::map<std::string, const TensorView*> found = match_names(tensors, wanted, report);

  Copies copies;
  std::set<std::string> conversions;
  for (const auto& [name, tensor] : state) {
    const auto entry = found.find(name);
    if (entry == found.end()) {
      if (!name.ends_with("num_batches_tracked")) report.missing.push_back(name);
      continue;
    }
    const TensorView& saved = *entry->second;
    if (const std::string text = difference(saved, tensor); !text.empty()) {
      report.different.push_back(name + ": " + text);
      continue;
    }
    if (const std::string dtype = dtype_name(tensor.scalar_type()); dtype != saved.dtype)
      conversions.insert(saved.dtype + " to " + dtype);
    copies.emplace_back(tensor, &saved);
  }
  for (const auto& [name, saved] : found)
    if (!wanted.contains(name) && !is_second_name(*saved, copies))
      report.unexpected.push_back(name);
  report.loaded = copies.size();
  report.conversions.assign(conversions.begin(), conversions.end());
  if (const std::vector<std::string> problems = problems_of(report); strict && !problems.empty())
    throw UsageError(problems);
  if (copies.empty())
    throw UsageError(report.file + ": no tensor of it fits the model, of which the first is " +
                     (state.empty() ? "none" : state.front().name) + ". It holds " +
                     list(report.unexpected.empty() ? report.different : report.unexpected) + ".");
  for (const auto& [tensor, saved] : copies)
    tensor.copy_(to_tensor(*saved));
  return report;
}

std::string to_text(const LoadReport& report) {
  std::string text = "weights: loaded " + counts(report) + " from " + report.file + "\n";
  const auto add = [&text](const std::string& what, const std::vector<std::string>& items) {
    if (!items.empty()) text += "  " + what + ": " + list(items) + "\n";
  };
  add("prefix taken off", report.prefixes);
  add("converted", report.conversions);
  add("skipped, they differ", report.different);
  add("not in the file, left as drawn", report.missing);
  add("not in the model, skipped", report.unexpected);
  return text;
}

}  // namespace ddp::worker
