#include "launcher/plan/hosts/ssh_command.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>

#include "common/error.h"
#include "common/text/shell_quotes.h"

namespace ddp::launcher {
namespace {

// Flags for this process alone, or set for each host.
constexpr std::array<std::string_view, 5> kOwnFlags{
    "hosts", "hostfile", "ssh", "dry-run", "nnodes"};

// Flags that the list of hosts and the connections replace.
constexpr std::array<std::string_view, 5> kOtherWays{
    "standalone", "rdzv-endpoint", "node-rank", "token-file", "token-stdin"};

constexpr std::array<std::string_view, 4> kPassedOn{"PET_", "DDP_", "NCCL_", "GLOO_"};
constexpr std::array<std::string_view, 4> kPassedOnAlone{
    "LOGLEVEL", "OMP_NUM_THREADS", "PYTHON_EXEC", "PYTHONPATH"};
// A secret, variables about this process, and those that the list of hosts replaces.
// clang-format off
constexpr std::array<std::string_view, 11> kKeptBack{
    "DDP_TOKEN", "DDP_RUN_ID", "DDP_ROUND", "DDP_RUN_DIR", "DDP_PROGRESS_FD", "DDP_JOB_START",
    "PET_NNODES", "PET_NODE_RANK", "PET_STANDALONE", "PET_RDZV_ENDPOINT", "PET_MASTER_ADDR"};
// clang-format on

template <std::size_t N>
bool is_in(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

/// "nnodes" of "--nnodes=2".
std::string_view name_of(std::string_view option) {
  option.remove_prefix(std::min<std::size_t>(2, option.size()));
  return option.substr(0, option.find('='));
}

std::optional<std::string> find_option(const SshPlan& plan, std::string_view name) {
  for (const std::string& option : plan.typed.options)
    if (name_of(option) == name) return option.substr(std::min(option.find('='), option.size()));
  return std::nullopt;
}

bool has_option(const SshPlan& plan, std::string_view name) {
  return find_option(plan, name).has_value();
}

bool is_passed_on(std::string_view name) {
  if (is_in(kKeptBack, name)) return false;
  return is_in(kPassedOnAlone, name) || std::ranges::any_of(kPassedOn, [&](std::string_view head) {
           return name.starts_with(head);
         });
}

/// Whether the address is loopback, at which other hosts would reach only themselves.
bool is_own_loopback(const std::string& address) {
  return address == "localhost" || address.starts_with("127.") || address == "::1";
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  return words;
}

/// The options of the agent on that host.
std::vector<std::string> agent_options(const SshPlan& plan, int node_rank) {
  const Host& host = plan.hosts[static_cast<std::size_t>(node_rank)];
  std::vector<std::string> options;
  for (const std::string& option : plan.typed.options) {
    const std::string_view name = name_of(option);
    const bool is_replaced = name == "nproc-per-node" && host.workers.has_value();
    if (!is_in(kOwnFlags, name) && !is_replaced) options.push_back(option);
  }
  options.push_back("--nnodes=" + std::to_string(plan.hosts.size()));
  options.push_back("--node-rank=" + std::to_string(node_rank));
  const bool is_told_address = has_option(plan, "master-addr") || plan.hosts.size() == 1;
  if (!is_told_address) options.push_back("--master-addr=" + plan.hosts.front().address);
  if (host.workers) options.push_back("--nproc-per-node=" + std::to_string(*host.workers));
  if (plan.has_colors && !has_option(plan, "color")) options.emplace_back("--color=always");
  options.emplace_back("--token-stdin");
  return options;
}

}  // namespace

std::string quote_for_shell(const std::string& word) {
  const bool is_plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./,:=@%+").find(c) != std::string_view::npos;
  });
  if (is_plain && word.front() != '=') return word;  // zsh expands a leading '='
  return in_quotes(word);
}

void check_ssh_plan(const SshPlan& plan) {
  std::vector<std::string> problems;
  const std::string listed = std::to_string(plan.hosts.size());
  for (const std::string_view name : kOtherWays) {
    if (!has_option(plan, name)) continue;
    problems.push_back("--" + std::string(name) +
                       ": with --hosts, each agent is told over its connection. Leave it out.");
  }
  if (has_option(plan, "debug"))
    problems.push_back(
        "--debug: with --hosts, no rank can have this terminal. Start the agents by "
        "hand, and give it to that of node 0.");
  const std::string nodes = find_option(plan, "nnodes").value_or("=" + listed).substr(1);
  if (nodes != listed && nodes != listed + ":" + listed) {
    problems.push_back("--nnodes says " + nodes + ", the list of hosts names " + listed +
                       ". Leave --nnodes out.");
  }
  const bool is_one_machine = std::ranges::all_of(
      plan.hosts, [](const auto& host) { return is_own_loopback(host.address); });
  if (!is_one_machine && !has_option(plan, "master-addr") &&
      is_own_loopback(plan.hosts.front().address)) {
    problems.push_back("--hosts " + plan.hosts.front().address +
                       ",...: the other hosts cannot reach the first by that name. Write a name "
                       "that they know, or give --master-addr.");
  }
  if (words_of(plan.ssh).empty()) problems.emplace_back("--ssh: no program. Leave it out.");
  if (!problems.empty()) throw UsageError(problems);
}

std::vector<std::string> ssh_command(const SshPlan& plan, int node_rank) {
  std::string remote = "cd " + quote_for_shell(plan.directory) + " && exec env";
  for (const auto& [name, value] : plan.environment)
    if (is_passed_on(name)) remote += " " + quote_for_shell(name + "=" + value);
  remote += " " + quote_for_shell(plan.program);
  std::vector<std::string> rest = plan.typed.rest;
  const bool is_doctor = !rest.empty() && rest.front() == "doctor";
  if (is_doctor) {  // a command comes before its flags
    remote += " doctor";
    rest.erase(rest.begin());
  }
  for (const std::string& option : agent_options(plan, node_rank))
    remote += " " + quote_for_shell(option);
  // With `--` a following word that looks like a flag, or a `--`, is the program's.
  if (!rest.empty()) remote += " --";
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (i == 1) remote += " --";
    remote += " " + quote_for_shell(rest[i]);
  }
  std::vector<std::string> words = words_of(plan.ssh);
  // No terminal there, no interactive question, and a host that is gone is noticed.
  words.insert(words.end(),
               {"-T",
                "-oBatchMode=yes",
                "-oConnectTimeout=30",
                "-oServerAliveInterval=5",
                "-oServerAliveCountMax=3",
                plan.hosts[static_cast<std::size_t>(node_rank)].login,
                remote});
  return words;
}

}  // namespace ddp::launcher
