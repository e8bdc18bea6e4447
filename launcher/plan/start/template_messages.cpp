#include "launcher/plan/start/template_messages.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "common/text/contains.h"
#include "common/text/join_words.h"
#include "common/text/parse_whole.h"
#include "common/text/split.h"
#include "common/version.h"
#include "launcher/plan/command_line/split_arguments.h"

namespace ddp::launcher {
namespace {

/// What differs between two ranks of a node, or between two rounds.
constexpr std::array<std::string_view, 17> kOfOneRank{"RANK",
                                                      "WORLD_SIZE",
                                                      "LOCAL_RANK",
                                                      "LOCAL_WORLD_SIZE",
                                                      "GROUP_RANK",
                                                      "GROUP_WORLD_SIZE",
                                                      "ROLE_RANK",
                                                      "ROLE_WORLD_SIZE",
                                                      "MASTER_ADDR",
                                                      "MASTER_PORT",
                                                      "TORCHELASTIC_RESTART_COUNT",
                                                      "TORCHELASTIC_ERROR_FILE",
                                                      "DDP_ROUND",
                                                      "DDP_RUN_DIR",
                                                      "DDP_PROGRESS_FD",
                                                      "TORCH_FR_DUMP_TEMP_FILE",
                                                      "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"};

/// With --virtual-local-rank.
constexpr std::array<std::string_view, 3> kOfOneGpu{
    "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"};

/// The size of the terminal, as it was when the template was made. A later round may have another.
constexpr std::array<std::string_view, 2> kOfTerminal{"COLUMNS", "LINES"};

/// What differs between two jobs, or between two commands that a shell starts.
constexpr std::array<std::string_view, 8> kOfOneJob{"DDP_AGENT_ID",
                                                    "DDP_JOB_START",
                                                    "DDP_RUN_ID",
                                                    "TORCHELASTIC_RUN_ID",
                                                    "TORCHELASTIC_MAX_RESTARTS",
                                                    "OLDPWD",
                                                    "SHLVL",
                                                    "_"};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Words with null bytes between them: no word of a command line or an environment has one.
class Packet {
 public:
  void add(std::string_view word) {
    if (has_words_) text_ += '\0';
    has_words_ = true;
    text_ += word;
  }
  void add(const Environment& environment) {
    for (const auto& [name, value] : environment)
      add(name + "=" + value);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
  bool has_words_ = false;
};

/// The kinds of parts that a key has; in the key each begins with that letter.
enum class KeyPart : char { argument = 'a', modules = 'm', variable = 'v', state = 's' };
using KeyParts = std::map<KeyPart, std::vector<std::string>>;

/// The parts of a key of this version; those of another one may be missing.
KeyParts parts_of(std::string_view key) {
  KeyParts parts;
  for (std::size_t at = key.find('\n'); at < key.size();) {
    const std::size_t colon = std::min(key.find(':', at), key.size());
    const auto size = parse_whole<std::size_t>(key.substr(at + 1, colon - at - 1), 1);
    if (!size || key.size() - colon <= *size) break;
    parts[static_cast<KeyPart>(key[colon + 1])].emplace_back(key.substr(colon + 2, *size - 1));
    at = colon + 1 + *size;
  }
  return parts;
}

/// The names, up to `end`, of the lines that are in one of the two alone: "PATH, HOME and 3 more".
std::string differing_names(const std::vector<std::string>& one,
                            const std::vector<std::string>& other,
                            char end) {
  constexpr std::size_t kMostNames = 4;
  std::vector<std::string> lines;
  std::vector<std::string> sorted_one = one;
  std::vector<std::string> sorted_other = other;
  std::ranges::sort(sorted_one);
  std::ranges::sort(sorted_other);
  std::ranges::set_symmetric_difference(sorted_one, sorted_other, std::back_inserter(lines));
  std::set<std::string> names;
  for (const std::string& line : lines)
    names.insert(line.substr(0, line.find(end)));
  std::string text;
  std::size_t shown = 0;
  for (const std::string& name : names) {
    if (shown++ < kMostNames) add_word(text, name);
  }
  if (shown > kMostNames) text += " and " + std::to_string(shown - kMostNames) + " more";
  return text;
}

}  // namespace

bool is_module_name(std::string_view module) {
  return std::ranges::all_of(split(module, '.'), [](std::string_view name) {
    const auto is_part = [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
    return !name.empty() && is_letter(name.front()) && std::ranges::all_of(name, is_part);
  });
}

Environment template_environment(const Environment& rank, TemplateUse use) {
  Environment environment = rank;
  for (const std::string_view name : kOfOneRank)
    environment.erase(std::string(name));
  if (use == TemplateUse::worker)
    for (const std::string_view name : kOfOneGpu)
      environment.erase(std::string(name));
  if (use != TemplateUse::warm) return environment;
  for (const std::string_view name : kOfOneJob)
    environment.erase(std::string(name));
  return environment;
}

std::optional<std::string> find_preload_obstacle(const JobSpec& spec) {
  if (!spec.by_python && !spec.warm_start) return spec.entry + " is not a Python script";
  // Libraries count CPUs when they are loaded, unless they are told how many threads to start.
  const bool has_threads = spec.nproc > 1 || spec.environment.contains("OMP_NUM_THREADS");
  if (!spec.cpu_sets.empty() && !has_threads)
    return "--numa-binding without OMP_NUM_THREADS: libraries would count all CPUs";
  return std::nullopt;
}

bool wants_warm_start(const JobSpec& spec) {
  const std::string wanted = spec.job.text("launch.warm_start");
  const bool is_worth_it = spec.nproc > 1 || spec.max_restarts > 0 || spec.keeps_survivors;
  return spec.takes_job_file && is_ddp_worker(spec.entry) &&
         (wanted == "true" || (wanted == "auto" && is_worth_it));
}

std::optional<std::string> find_rank_variable(std::string_view program) {
  if (!program.starts_with("#!")) return std::nullopt;
  for (const std::string_view name : kOfOneRank) {
    if (contains(program, name)) return std::string(name);
  }
  return std::nullopt;
}

std::optional<std::string> find_other_variable(const Environment& base, const Environment& wanted) {
  const auto differs = [](const Environment& one, const Environment& other) {
    return std::ranges::find_if(one, [&](const auto& entry) {
      const auto found = other.find(entry.first);
      const bool is_size = std::ranges::find(kOfTerminal, entry.first) != kOfTerminal.end();
      return !is_size && (found == other.end() || found->second != entry.second);
    });
  };
  if (const auto found = differs(wanted, base); found != wanted.end())
    return found->first + " differs between ranks";
  if (const auto found = differs(base, wanted); found != base.end())
    return found->first + " differs between ranks";
  return std::nullopt;
}

std::string import_request(const std::vector<std::string>& modules,
                           const Environment& rank,
                           const Environment& base,
                           const WarmSocket& socket) {
  Packet packet;
  packet.add(socket.path);
  packet.add(socket.temporary_path);
  packet.add(std::to_string(socket.idle.count()));
  packet.add(socket.key);
  for (const std::string& module : modules)
    packet.add(module);
  packet.add("");
  for (const auto& [name, value] : rank) {
    if (!base.contains(name)) packet.add(name);
  }
  packet.add("");
  packet.add(base);
  return packet.take();
}

std::vector<std::string> up_to_script(std::vector<std::string> arguments) {
  const std::size_t named = arguments.size() > 2 && arguments[2] == "-m" ? 4 : 3;
  arguments.resize(std::min(named, arguments.size()));
  return arguments;
}

std::string job_request(const std::string& key,
                        const std::string& agent_id,
                        const std::vector<std::string>& arguments) {
  Packet packet;
  packet.add(key);
  packet.add(agent_id);
  for (const std::string& argument : arguments)
    packet.add(argument);
  return packet.take();
}

std::string warm_key(const std::vector<std::string>& arguments,
                     const std::vector<std::string>& modules,
                     const Environment& base,
                     const std::string& state) {
  std::string key = DDP_VERSION;
  const auto add = [&key](KeyPart part, std::string_view text) {
    key += "\n" + std::to_string(text.size() + 1) + ":" + static_cast<char>(part);
    key += text;
  };
  for (const std::string& argument : up_to_script(arguments))
    add(KeyPart::argument, argument);
  add(KeyPart::modules, join_words(modules));
  for (const auto& [name, value] : base)
    add(KeyPart::variable, name + "=" + value);
  for (const std::string_view line : split(state, '\n'))
    add(KeyPart::state, line);
  return key;
}

std::optional<std::string> find_other_part(std::string_view theirs, std::string_view ours) {
  const KeyParts other = parts_of(theirs);
  const KeyParts own = parts_of(ours);
  const auto texts_of = [](const KeyParts& parts, KeyPart part) {
    const auto found = parts.find(part);
    return found == parts.end() ? std::vector<std::string>() : found->second;
  };
  std::vector<std::string> other_words = texts_of(other, KeyPart::argument);
  std::vector<std::string> own_words = texts_of(own, KeyPart::argument);
  if (other_words.empty() || own_words.empty()) return std::nullopt;
  const std::string interpreter = std::exchange(other_words.front(), own_words.front());
  if (other_words != own_words) return std::nullopt;
  const auto directory_of = [&](const KeyParts& parts) {
    for (const std::string& line : texts_of(parts, KeyPart::state))
      if (line.starts_with(kWorkingDirectory)) return line;
    return std::string();
  };
  const bool is_absolute = own_words.back().starts_with('/');
  if (!is_absolute && directory_of(other) != directory_of(own)) return std::nullopt;
  std::string why;
  if (interpreter != own_words.front()) add_word(why, "it is of the interpreter " + interpreter);
  if (texts_of(other, KeyPart::modules) != texts_of(own, KeyPart::modules))
    add_word(why, "it was made with --preload " + join_words(texts_of(other, KeyPart::modules)));
  const auto names = [&](KeyPart part, char end) {
    return differing_names(texts_of(other, part), texts_of(own, part), end);
  };
  if (const std::string found = names(KeyPart::variable, '='); !found.empty())
    add_word(why, "other variables: " + found);
  if (const std::string found = names(KeyPart::state, ':'); !found.empty())
    add_word(why, "differs: " + found);
  return why.empty() ? "it is of another version of ddp-launch" : why;
}

std::string copy_request(const CopyPlan& plan) {
  Packet packet;
  packet.add(std::to_string(plan.parent));
  packet.add(plan.descriptors);
  packet.add(std::to_string(plan.page_fd));
  packet.add(std::to_string(plan.lock_fd));
  packet.add(join_words(plan.cpus, ",", [](int cpu) { return std::to_string(cpu); }));
  packet.add(std::to_string(plan.arguments.size()));
  for (const std::string& argument : plan.arguments)
    packet.add(argument);
  packet.add(plan.environment);
  return packet.take();
}

TemplateMessage read_template_message(std::string_view packet) {
  using Kind = TemplateMessage::Kind;
  const std::size_t blank = packet.find(' ');
  const std::string_view kind = packet.substr(0, blank);
  const std::string text(blank == std::string_view::npos ? "" : packet.substr(blank + 1));
  if (kind == "chosen") return {Kind::chosen, text};
  if (kind == "importing") return {Kind::importing, text};
  if (kind == "ready") return {Kind::ready, text};
  return {Kind::unfit, kind == "unfit" || kind == "stale" ? text : std::string(packet)};
}

std::optional<ExitStatus> read_exit(std::string_view packet) {
  const std::vector<std::string_view> words = split(packet, ' ');
  if (words.size() != 3 || words[0] != "ended") return std::nullopt;
  const int status = parse_whole<int>(words[2]).value_or(0);
  if (words[1] == std::to_string(CLD_EXITED)) return ExitStatus{status, 0, false};
  return ExitStatus{0, status, words[1] == std::to_string(CLD_DUMPED)};
}

std::optional<WarmTemplate> read_warm_template(std::string_view packet) {
  const std::vector<std::string_view> lines = split(packet, '\n');
  if (lines.size() != 7) return std::nullopt;
  WarmTemplate found;
  found.pid = parse_whole<int>(lines[0]).value_or(0);
  found.begin = parse_whole<std::int64_t>(lines[1]).value_or(0);
  found.idle_left = parse_whole<int>(lines[2]).value_or(0);
  found.jobs = parse_whole<int>(lines[3]).value_or(0);
  found.python = lines[4];
  found.modules = lines[5];
  found.script = lines[6];
  return found.pid > 1 ? std::optional(found) : std::nullopt;
}

CopyAnswer read_copy_answer(std::string_view packet) {
  CopyAnswer answer;
  const std::vector<std::string_view> parts = split(packet, ' ');
  const std::optional<int> pid = parse_whole<int>(std::string(parts[0]));
  if (parts.size() == 2 && pid && *pid > 1) {
    answer.pid = *pid;
    answer.is_in_cgroup = parts[1] == "1";
  } else {
    answer.problem = packet.empty() ? "it has ended" : std::string(packet);
  }
  return answer;
}

}  // namespace ddp::launcher
