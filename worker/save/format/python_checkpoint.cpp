#include "worker/save/format/python_checkpoint.h"

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/text/join_words.h"
#include "common/text/one_line.h"
#include "common/text/parse_whole.h"
#include "worker/save/format/torch_archive.h"
#include "worker/save/format/torch_file.h"
#include "worker/save/trust.h"

namespace ddp::worker {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kLongestError = 800;
constexpr std::size_t kMaxNamed = 12;   // names of entries in a message
constexpr std::size_t kMaxStates = 64;  // kept for one parameter: Adam has four
constexpr std::size_t kLongestEntryName = 400;

std::optional<double> to_number(const PickleValue& value) {
  if (value.kind == Kind::real) return value.real;
  if (value.kind == Kind::integer || value.kind == Kind::boolean)
    return static_cast<double>(value.integer);
  return {};
}

/// An entry of the file, under the name that the job gives it, or one of the usual names.
struct NamedEntry {
  const char* part;  // in checkpoint.keys
  std::vector<std::string> names;
};

class CheckpointReader {
 public:
  CheckpointReader(const TorchArchive& archive, const TextMap& keys)
      : archive_(archive), keys_(keys) {}

  void read(PythonCheckpoint& into) const {
    if (archive_.root().kind != Kind::dict)
      archive_.refuse("it holds no dict of what a training goes on with");
    into.epoch = read_epoch();
    const PickleValue& model = require({"model", {"model_state_dict", "state_dict", "model"}});
    if (!archive_.has_tensors(model))
      archive_.refuse("its entry for the model is not a state_dict. Save model.state_dict()");
    into.model = archive_.read_tensors(model);
    into.optimizer = read_optimizer(
        require({"optimizer", {"optimizer_state_dict", "Optimizer_state_dict", "optimizer"}}));
    const PickleValue* const scheduler = find({"scheduler", {"scheduler_state_dict"}});
    const PickleValue* const steps =
        scheduler != nullptr ? archive_.find(*scheduler, "last_epoch") : nullptr;
    if (steps != nullptr && steps->kind == Kind::integer) into.scheduler_steps = steps->integer;
  }

 private:
  [[nodiscard]] std::vector<std::string> names_of(const NamedEntry& entry) const {
    const auto given = keys_.find(entry.part);
    return given != keys_.end() ? std::vector{given->second} : entry.names;
  }

  [[nodiscard]] const PickleValue* find(const NamedEntry& entry) const {
    for (const std::string& name : names_of(entry))
      if (const PickleValue* const value = archive_.find(archive_.root(), name)) return value;
    return nullptr;
  }

  [[nodiscard]] const PickleValue& require(const NamedEntry& entry) const {
    if (const PickleValue* const value = find(entry)) return *value;
    std::vector<std::string> there;
    const PickleValue& root = archive_.root();
    for (std::size_t i = 0; i + 1 < root.items.size() && i < 2 * kMaxNamed; i += 2)
      there.push_back(archive_.pickle().item(root, i).text);
    archive_.refuse("it has no entry " + join_words(names_of(entry), " or ") + "; it has " +
                    (there.empty() ? "none" : join_words(there)) +
                    ". Say what it is called by checkpoint.keys={" + entry.part +
                    ": NAME}, or start from its weights alone by model.weights");
  }

  [[nodiscard]] std::int64_t read_epoch() const {
    const auto given = keys_.find("epoch");
    if (given != keys_.end())
      if (const std::optional<std::int64_t> number = parse_whole<std::int64_t>(given->second, 0))
        return *number;
    const PickleValue& value = require({"epoch", {"start_epoch"}});
    if (value.kind == Kind::integer && value.integer >= 0) return value.integer;
    archive_.refuse(
        "its epoch is not a whole number from 0 on. Give it, as checkpoint.keys={epoch: 3}");
  }

  [[nodiscard]] const PickleValue& item(const PickleValue& value, std::size_t i) const {
    return archive_.pickle().item(value, i);
  }

  [[nodiscard]] const std::string& name_of(const PickleValue& value) const {
    if (value.text.size() > kLongestEntryName)
      archive_.refuse("a name in its optimizer has more than " + std::to_string(kLongestEntryName) +
                      " bytes");
    return value.text;
  }

  [[nodiscard]] PythonOptimizer read_optimizer(const PickleValue& saved) const {
    const PickleValue* const state = archive_.find(saved, "state");
    const PickleValue* const groups = archive_.find(saved, "param_groups");
    if (state == nullptr || groups == nullptr || state->kind != Kind::dict ||
        groups->kind != Kind::list)
      archive_.refuse("its entry for the optimizer is not a state_dict of torch.optim");
    PythonOptimizer optimizer;
    optimizer.groups = groups->items.size();
    std::map<std::int64_t, std::size_t> places;  // by torch's numbers
    // A small file may refer to one large value as the state of many parameters.
    std::set<std::size_t> used;
    const auto use = [&](const PickleValue& list, std::size_t i) -> const PickleValue& {
      if (!used.insert(list.items[i]).second)
        archive_.refuse(
            "two groups, or two parameters, of its optimizer share what is kept for them");
      return item(list, i);
    };
    for (std::size_t i = 0; i < groups->items.size(); ++i)
      read_group(use(*groups, i), i == 0, optimizer, places);
    for (std::size_t i = 0; i + 1 < state->items.size(); i += 2) {
      const PickleValue& number = item(*state, i);
      const auto place = places.find(number.integer);
      if (number.kind != Kind::integer || place == places.end())
        archive_.refuse("its optimizer keeps something for a parameter that no group has");
      read_state(use(*state, i + 1), optimizer.parameters[place->second]);
    }
    return optimizer;
  }

  void read_group(const PickleValue& group,
                  bool is_first,
                  PythonOptimizer& optimizer,
                  std::map<std::int64_t, std::size_t>& places) const {
    const PickleValue* const numbers = archive_.find(group, "params");
    if (numbers == nullptr || numbers->kind != Kind::list)
      archive_.refuse("a group of its optimizer has no list of parameters");
    const PickleValue* const names = archive_.find(group, "param_names");
    const bool has_names = names != nullptr && names->kind == Kind::list &&
                           names->items.size() == numbers->items.size();
    for (std::size_t i = 0; i < numbers->items.size(); ++i) {
      const PickleValue& number = item(*numbers, i);
      if (number.kind != Kind::integer ||
          !places.emplace(number.integer, optimizer.parameters.size()).second)
        archive_.refuse("the groups of its optimizer do not number parameters");
      optimizer.parameters.push_back({has_names ? name_of(item(*names, i)) : "", {}, {}});
    }
    const NamedValues settings = settings_of(group);
    if (is_first) optimizer.settings = settings;
    std::erase_if(optimizer.settings,
                  [&](const auto& one) { return find_value(settings, one.first) != one.second; });
  }

  [[nodiscard]] NamedValues settings_of(const PickleValue& group) const {
    NamedValues settings;
    for (std::size_t i = 0; i + 1 < group.items.size(); i += 2) {
      const std::string& name = name_of(item(group, i));
      const PickleValue& value = item(group, i + 1);
      if (const std::optional<double> number = to_number(value))
        settings.emplace_back(name, *number);
      if (name != "betas" || value.items.size() != 2) continue;
      for (std::size_t k = 0; k < 2; ++k)
        settings.emplace_back(k == 0 ? "beta1" : "beta2", to_number(item(value, k)).value_or(0));
    }
    return settings;
  }

  void read_state(const PickleValue& saved, PythonParameter& parameter) const {
    if (saved.kind != Kind::dict || saved.items.size() > 2 * kMaxStates)
      archive_.refuse("its optimizer's state is described in an unknown way");
    for (std::size_t i = 0; i + 1 < saved.items.size(); i += 2) {
      const std::string& name = name_of(item(saved, i));
      const PickleValue& value = item(saved, i + 1);
      if (archive_.is_tensor(value))
        parameter.tensors.push_back(archive_.read_tensor(name, value));
      else if (const std::optional<double> number = to_number(value))
        parameter.numbers.emplace_back(name, *number);
    }
  }

  const TorchArchive& archive_;
  const TextMap& keys_;
};

}  // namespace

PythonCheckpoint parse_python_checkpoint(std::vector<std::byte> bytes,
                                         const std::string& name,
                                         const TextMap& keys) {
  PythonCheckpoint checkpoint;
  checkpoint.bytes = std::move(bytes);
  try {
    if (!is_torch_file(checkpoint.bytes))
      throw UsageError(name +
                       ": it is neither a checkpoint nor a file of torch.save. Weights alone are "
                       "for model.weights");
    const TorchArchive archive(checkpoint.bytes, name);
    CheckpointReader(archive, keys).read(checkpoint);
  } catch (const UsageError& error) {
    throw UsageError("cannot resume from " + one_line(error.what(), kLongestError) + ".");
  }
  return checkpoint;
}

PythonCheckpoint read_python_checkpoint(const std::filesystem::path& path,
                                        const TextMap& keys,
                                        bool trust) {
  return parse_python_checkpoint(read_trusted(path, trust), path.string(), keys);
}

}  // namespace ddp::worker
