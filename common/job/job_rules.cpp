#include "common/job/job_rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <span>

#include "common/job/job_keys.h"
#include "common/job/resolve_job.h"
#include "common/text/color.h"
#include "common/text/join_words.h"
#include "common/text/parse_whole.h"
#include "common/text/spelling.h"

namespace ddp {
namespace {

bool is_device(const std::string& text, bool is_auto_allowed) {
  if (text == "cpu" || text == "cuda") return true;
  if (text == "auto") return is_auto_allowed;
  const std::string number = text.starts_with("cuda:") ? text.substr(5) : "";
  return !number.empty() && number.size() <= 3 &&
         std::all_of(number.begin(), number.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// " (did you mean "cuda:1"?)." or ".".
std::string suggest_device(const std::string& text, bool is_auto_allowed) {
  constexpr std::array<std::string_view, 3> kAll{"auto", "cpu", "cuda"};
  const auto words = std::span(kAll).subspan(is_auto_allowed ? 0 : 1);
  const std::string kind = text.substr(0, text.find(':'));
  const std::optional<std::string> near =
      kind == "gpu" ? std::optional<std::string>("cuda") : did_you_mean(kind, words);
  if (!near) return ".";
  const std::string whole = *near + text.substr(kind.size());
  return " (did you mean \"" + (is_device(whole, is_auto_allowed) ? whole : *near) + "\"?).";
}

bool is_positive(const std::string& text) {
  return parse_whole<double>(text).value_or(0) > 0;
}

class Rules {
 public:
  explicit Rules(const JobValues& job) : job_(job) {}

  std::vector<std::string> broken() {
    check_run();
    check_data();
    check_model();
    check_devices();
    check_training();
    check_arguments();
    return problems_;
  }

 private:
  void refuse(std::string_view path, const std::string& why) {
    problems_.push_back(job_.setting(path).origin + ": " + std::string(path) + ": " + why);
  }

  void check_run() {
    if (job_.text("output").empty()) refuse("output", "is empty. Give a directory, as runs.");
    if (job_.text("name") == "latest") {
      refuse("name", "latest is the name of the link to the newest run. Give another.");
    }
  }

  void check_data() {
    const bool has_batch = !job_.is_null("data.batch");
    const bool has_per_rank = !job_.is_null("data.batch_per_rank");
    if (has_batch && has_per_rank) {
      problems_.push_back(job_.setting("data.batch").origin +
                          ": data.batch and data.batch_per_rank (" +
                          job_.setting("data.batch_per_rank").origin +
                          ") are both given: give exactly one, set the other to null.");
    }
    if (!has_batch && !has_per_rank) {
      problems_.push_back(
          "data: give exactly one of data.batch (samples of the whole job) and "
          "data.batch_per_rank.");
    }
    const std::optional<std::string> background = job_.maybe_text("data.background");
    if (background && !parse_color(*background)) {
      refuse("data.background",
             *background + " is not a color. Give white, black, or \"#rrggbb\" in quotes.");
    }
    if (needs_data_root(job_) && job_.is_null("data.root")) {
      const std::string& data = job_.text("data.name");
      refuse("data.name",
             data + " needs data.root, the directory that holds its files" +
                 (is_published(data) ? "; ddp-worker fetch " + data + " DIR gets them." : "."));
    }
  }

  void check_model() {
    const bool is_exported = !job_.is_null("model.export");
    if (!is_exported && job_.is_null("model.script")) return;
    const std::string key = is_exported ? "model.export" : "model.script";
    const auto refuse_beside = [&](std::string_view path, const std::string& why) {
      if (job_.setting(path).value != default_job().setting(path).value)
        refuse(path, why + " Remove it, or " + key + ".");
    };
    if (is_exported) refuse_beside("model.script", "is another model than that of model.export.");
    refuse_beside("model.name", "is another model than that of " + key + ".");
    refuse_beside("model.stem", "is for resnets by name; " + key + " holds a whole model.");
    refuse_beside("model.norm",
                  "sync has no effect inside a model from Python, whose norms are fixed: in "
                  "Python, take torch.nn.GroupNorm before you write the file.");
  }

  void check_devices() {
    if (!is_device(job_.text("device"), true)) {
      refuse("device",
             job_.text("device") + " is not auto, cpu, cuda or cuda:N" +
                 suggest_device(job_.text("device"), true));
    }
    for (const std::string& device : job_.texts("devices")) {
      if (!is_device(device, false))
        refuse("devices", device + " is not cpu, cuda or cuda:N" + suggest_device(device, false));
    }
    const std::optional<std::string> output = job_.maybe_text("output_device");
    if (output && !is_device(*output, false))
      refuse("output_device",
             *output + " is not cpu, cuda or cuda:N" + suggest_device(*output, false));
    const bool is_data_parallel = job_.text("parallel") == "data";
    if (!is_data_parallel && (output || !job_.texts("devices").empty())) {
      refuse(output ? "output_device" : "devices",
             "is for parallel=data; with ddp each rank has one device.");
    }
    if (is_data_parallel && job_.text("model.norm") == "sync") {
      refuse("model.norm",
             "sync is for parallel=ddp; replicas of one process do not share statistics.");
    }
    if (job_.text("backend") == "nccl" && job_.text("device") == "cpu")
      refuse("backend", "nccl needs GPUs, device is cpu. Use backend=auto, or device=cuda.");
  }

  void check_training() {
    if (job_.flag("optimizer.nesterov") && job_.real("optimizer.momentum") == 0)
      refuse("optimizer.nesterov", "true needs optimizer.momentum above 0.");
    if (job_.flag("ddp.static_graph") && job_.integer("train.accumulate") > 1) {
      // c10d then gives wrong gradients without an error.
      refuse("ddp.static_graph",
             "true does not go with train.accumulate above 1. Give up one of them.");
    }
    if (job_.flag("ddp.static_graph") && job_.flag("ddp.find_unused")) {
      refuse("ddp.find_unused",
             "true is without effect beside ddp.static_graph, which learns from "
             "the first step what is unused. Give up one of them.");
    }
    const std::string& optimizer = job_.text("optimizer.name");
    if (job_.flag("optimizer.nesterov") && (optimizer == "adam" || optimizer == "adamw")) {
      refuse("optimizer.nesterov",
             "true is for optimizer.name=sgd; " + optimizer + " has no such form.");
    }
    if (job_.real("optimizer.ema_ramp") > 0 && job_.is_null("optimizer.ema_decay")) {
      refuse("optimizer.ema_ramp",
             "is for a moving average. Give optimizer.ema_decay, or leave it 0.");
    }
    check_schedule();
    for (const auto& [part, name] : job_.text_map("checkpoint.keys")) {
      constexpr std::string_view kParts[] = {"epoch", "model", "optimizer", "scheduler"};
      if (std::ranges::find(kParts, part) != std::end(kParts) && !name.empty()) continue;
      refuse(
          "checkpoint.keys",
          part + ": " + name + " is not a name for one of epoch, model, optimizer and scheduler.");
    }
    check_allowed();
    const std::string& scale = job_.text("amp.loss_scale");
    if (scale != "dynamic" && !is_positive(scale))
      refuse("amp.loss_scale", scale + " is neither dynamic nor a number above 0.");
    for (const auto& [pattern, factor] : job_.text_map("optimizer.lr_factors")) {
      if (!is_positive(factor))
        refuse("optimizer.lr_factors", pattern + ": " + factor + " is not a number above 0.");
    }
  }

  /// checkpoint.allow may only name keys and sections that exist.
  void check_allowed() {
    const std::vector<std::string>& allowed = job_.texts("checkpoint.allow");
    for (const std::string& name : allowed) {
      if (find_job_key(name) == nullptr && !is_job_section(name))
        refuse("checkpoint.allow", describe_unknown_key(name));
    }
    const std::string& resume = job_.text("checkpoint.resume");
    if (!allowed.empty() && (resume == "auto" || resume == "never")) {
      refuse("checkpoint.allow",
             "is about the checkpoint that checkpoint.resume=PATH names, and "
             "checkpoint.resume is " +
                 resume + ". Give the path, as runs/digits/best.");
    }
  }

  void check_schedule() {
    const std::string& schedule = job_.text("schedule.name");
    const bool has_lowest =
        schedule == "cosine" || schedule == "plateau" || schedule == "polynomial";
    if (has_lowest && job_.real("schedule.min_lr") > job_.real("optimizer.lr"))
      refuse("schedule.min_lr", "is above optimizer.lr.");
    if (schedule == "plateau" && job_.integer("eval.every") == 0)
      refuse("schedule.name", "plateau looks at evaluations, eval.every is 0. Give 1 or more.");
    if (schedule == "multistep" && job_.integers("schedule.milestones").empty()) {
      refuse("schedule.name",
             "multistep drops the rate at schedule.milestones, and there are none. "
             "Give epochs, as [30, 60].");
    }
  }

  /// Refuses arguments that nothing would read.
  void check_arguments() {
    const auto refuse_for = [this](const std::string& section, const std::string& things) {
      const std::string& name = job_.text(section + ".name");
      if (job_.text_map(section + ".args").empty() || !is_built_in(section + ".name", name)) return;
      const bool says_itself =
          section == "data" ? name == "coco" || name == "synthetic" : name == "detection";
      if (says_itself) return;  // it reports unknown arguments itself
      refuse(section + ".args",
             "are for " + things + " that a program registers, and " + section + ".name is " +
                 name + ". Remove the key.");
    };
    refuse_for("data", "data sets");
    refuse_for("task", "tasks");
    refuse_for("loss", "losses");
    refuse_for("optimizer", "optimizers");
  }

  const JobValues& job_;
  std::vector<std::string> problems_;
};

}  // namespace

bool is_built_in(std::string_view path, const std::string& word) {
  const auto key = std::ranges::find(job_keys(), path, &JobKey::path);
  return std::ranges::find(key->choices, word) != key->choices.end();
}

bool needs_data_root(const JobValues& job) {
  const std::string& data = job.text("data.name");
  return data != "digits" && data != "synthetic" && is_built_in("data.name", data);
}

bool is_published(std::string_view set) {
  constexpr std::array<std::string_view, 4> kSets{"mnist", "fashion-mnist", "cifar10", "cifar100"};
  return std::ranges::find(kSets, set) != kSets.end();
}

std::vector<std::string> broken_rules(const JobValues& job) {
  return Rules(job).broken();
}

std::vector<std::string> unread_keys(const JobValues& job) {
  std::vector<std::string> lines;
  const auto say_unless = [&](bool is_read, std::string_view path, const std::string& why) {
    if (is_read || job.setting(path).value == default_job().setting(path).value) return;
    lines.push_back(std::string(path) + " is without effect: " + why);
  };
  const std::string& optimizer = job.text("optimizer.name");
  const bool is_sgd = optimizer == "sgd";
  // A registered optimizer may read all keys.
  const bool is_adam = optimizer == "adam" || optimizer == "adamw";
  for (const char* const path : {"optimizer.momentum", "schedule.warmup_momentum"})
    say_unless(!is_adam, path, "it is for sgd, optimizer.name is " + optimizer);
  for (const char* const path : {"optimizer.beta1", "optimizer.beta2", "optimizer.eps"})
    say_unless(!is_sgd, path, "it is for adam and adamw, optimizer.name is sgd");
  for (const JobKey& key : job_keys()) {
    if (key.path.starts_with("ddp."))
      say_unless(job.text("parallel") == "ddp", key.path, "with parallel=data one process trains");
  }
  const std::string& schedule = job.text("schedule.name");
  const auto read_by = [&](std::string_view path, std::initializer_list<std::string_view> names) {
    const bool is_read = std::ranges::find(names, schedule) != names.end();
    say_unless(is_read,
               path,
               "it is for " + join_words(names, " and ") + ", schedule.name is " + schedule);
  };
  read_by("schedule.every", {"step"});
  read_by("schedule.milestones", {"multistep"});
  read_by("schedule.gamma", {"step", "multistep"});
  read_by("schedule.power", {"polynomial"});
  for (const char* const path : {"schedule.factor", "schedule.patience", "schedule.threshold"})
    read_by(path, {"plateau"});
  read_by("schedule.min_lr", {"cosine", "plateau", "polynomial"});
  for (const char* const path : {"schedule.warmup_bias_lr", "schedule.warmup_momentum"}) {
    say_unless(schedule != "one-cycle", path, "one-cycle has a warm-up of its own");
    say_unless(job.real("schedule.warmup") > 0, path, "schedule.warmup is 0");
  }
  say_unless(!is_sgd || job.real("optimizer.momentum") > 0,
             "schedule.warmup_momentum",
             "optimizer.momentum is 0");
  return lines;
}

}  // namespace ddp
