#include "worker/train/published_weights.h"

#include <chrono>
#include <iostream>
#include <string_view>

#include "common/error.h"
#include "common/node/helper_process.h"
#include "common/text/join_words.h"
#include "common/text/spelling.h"
#include "common/text/units.h"
#include "worker/fetch/published_sets.h"
#include "worker/plan/user_cache.h"

namespace ddp::worker {
namespace {

constexpr std::string_view kPrefix = "fetch:";

std::string last_line(std::string text) {
  while (text.ends_with('\n') || text.ends_with('.'))
    text.pop_back();
  return text.substr(text.rfind('\n') + 1) + ".";
}

[[noreturn]] void refuse(const std::string& model, const std::string& why) {
  throw UsageError("model.weights: fetch:" + model + ": " + why);
}

}  // namespace

std::optional<std::string> published_model(const std::filesystem::path& weights) {
  const std::string& text = weights.native();
  if (!text.starts_with(kPrefix)) return {};
  return text.substr(kPrefix.size());
}

std::filesystem::path fetch_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "ddp-fetch";
}

std::filesystem::path fetch_weights(const std::string& model, std::chrono::seconds limit) {
  const std::optional<std::string> name = weights_file_name(model);
  if (!name) {
    const std::vector<std::string> known = models_with_weights();
    const auto near =
        did_you_mean(model, std::vector<std::string_view>(known.begin(), known.end()));
    refuse(model,
           "there are no published weights of it" +
               (near ? ", did you mean fetch:" + std::string(*near) + "?" : std::string(".")) +
               " There are those of " + join_words(known) + ".");
  }
  const std::optional<std::filesystem::path> cache = user_cache_dir();
  if (!cache)
    refuse(model, "no place for it: neither XDG_CACHE_HOME nor HOME names a directory. Set one.");
  const std::filesystem::path folder = *cache / "weights";
  const std::filesystem::path file = folder / *name;
  std::error_code ignored;
  const bool is_there = std::filesystem::exists(file, ignored);
  const std::filesystem::path program = fetch_program();
  if (is_there && !std::filesystem::exists(program, ignored)) return file;
  if (!is_there)
    std::cout << "model.weights: getting " << *name << " into " << folder.string() << std::endl;
  // What it says goes to stderr, which ask_command() drops. It also verifies what is there.
  const HelperAnswer answer = ask_command(
      {"/bin/sh", "-c", "\"$0\" \"$@\" 2>&1 && echo fetched", program, "weights/" + model, folder},
      limit);
  if (answer.text.ends_with("fetched\n")) return file;
  refuse(model,
         (answer.is_whole ? last_line(answer.text)
                          : "did not come within " + format_duration(limit) +
                                ", for which the other ranks wait (ddp.timeout).") +
             (is_there ? ""
                       : " Before the job, on a machine with a network: ddp-worker fetch weights/" +
                             model + " DIR; then model.weights=DIR/" + *name));
}

}  // namespace ddp::worker
