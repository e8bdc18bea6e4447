#include "launcher/plan/rerun.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "launcher/plan/worker_environment.h"

namespace ddp::launcher {
namespace {

constexpr int kUsualPort = 29500;  // torch's own; nobody is to meet there

/// What is about an agent, a round or a role: a rank alone has none.
bool is_about_the_job(std::string_view name) {
  constexpr std::array<std::string_view, 4> kPrefixes{"TORCHELASTIC_", "DDP_", "ROLE_", "GROUP_"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [name](std::string_view prefix) {
    return name.starts_with(prefix);
  });
}

}  // namespace

std::string quote(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./=:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word)
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string rerun_command(const JobSpec& spec,
                          const Placement& placement,
                          const std::filesystem::path& directory) {
  Placement alone;
  alone.local_rank = placement.local_rank;
  RoundFacts facts;
  facts.master_port = kUsualPort;
  std::string text = "cd " + quote(directory.string()) + " && env";
  for (const auto& [name, value] : added_environment(spec, alone, facts, "", -1)) {
    if (!is_about_the_job(name)) text += " " + quote(name + "=" + value);
  }
  const std::vector<std::string> arguments = worker_arguments(spec, placement);
  text += " " + quote(spec.executable);
  for (std::size_t i = 1; i < arguments.size(); ++i)
    text += " " + quote(arguments[i]);
  return text;
}

}  // namespace ddp::launcher
