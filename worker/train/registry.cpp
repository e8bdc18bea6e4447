#include "worker/train/registry.h"

#include <string_view>

#include "common/error.h"
#include "common/spelling.h"

namespace ddp::worker {
namespace {

template <typename Factory>
void require(const std::map<std::string, Factory>& known,
             const char* key,
             const std::string& name,
             std::vector<std::string>& problems) {
  if (known.contains(name)) return;
  std::vector<std::string_view> names;
  std::string list;
  for (const auto& [word, factory] : known) {
    names.push_back(word);
    list += (list.empty() ? "" : ", ") + word;
  }
  const std::optional<std::string> near = did_you_mean(name, names);
  problems.push_back(std::string(key) + ": this program has no \"" + name + "\"" +
                     (near ? ", did you mean \"" + *near + "\"?" : ".") + " It has: " + list + ".");
}

}  // namespace

Registry built_in() {
  Registry registry;
  registry.models = built_in_models();
  for (const char* const name : {"digits", "mnist", "fashion-mnist"})
    registry.data_sets[name] = load_data_set;
  registry.losses["cross-entropy"] = [](const LossJob& job) {
    return make_cross_entropy(job.label_smoothing);
  };
  return registry;
}

void require_known(const Registry& registry, const Job& job) {
  std::vector<std::string> problems;
  require(registry.data_sets, "data.name", job.data.name, problems);
  require(registry.models, "model.name", job.model.name, problems);
  require(registry.losses, "loss.name", job.loss.name, problems);
  if (!problems.empty()) throw UsageError(problems);
}

}  // namespace ddp::worker
