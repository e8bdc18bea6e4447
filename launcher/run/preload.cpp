#include "launcher/run/preload.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "common/error.h"
#include "common/files/files.h"
#include "common/text/join_words.h"
#include "launcher/os/warm_pool.h"
#include "launcher/plan/start/numa.h"
#include "launcher/plan/start/template_messages.h"
#include "launcher/plan/start/wrapper.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostScript = 64 << 10;         // bytes of an interpreter that is a script
constexpr std::chrono::seconds kLongImport(2);        // then a line says what is waited for
constexpr std::chrono::milliseconds kStopPause(200);  // between two looks whether it is stopped

/// Says why there is no template. With launch.warm_start: auto nobody asked for one: a debug line.
void give_up(const PreloadParts& parts, const std::string& why) {
  const std::string line = template_name(parts.spec) + ": " + why + "; starting without it";
  if (parts.spec.warm_start && parts.spec.job.text("launch.warm_start") == "auto")
    parts.console.debug(line);
  else
    parts.console.warning(line);
}

/// A source of events: the template's messages. Owners of the template: this coroutine, and the
/// caller, which may end it.
asio::awaitable<void> pass_on(std::shared_ptr<RankTemplate> source, Inbox<AgentEvent>& inbox) {
  using Kind = TemplateMessage::Kind;
  Kind kind = Kind::importing;
  while (kind == Kind::importing || kind == Kind::chosen) {
    TemplateReported report;
    report.message = co_await source->listen();
    kind = report.message.kind;
    inbox.push(std::move(report));
  }
}

/// The pool of warm templates, and the key by which this job looks there. Nothing: this job uses no
/// pool.
struct Warm {
  WarmPool pool;
  std::string key;
  std::string agent_id;
};
std::optional<Warm> open_pool(const PreloadParts& parts, const ProcessSpec& rank) {
  if (parts.spec.preload_idle == std::chrono::seconds(0)) return std::nullopt;
  std::optional<WarmPool> pool = WarmPool::open(parts.scratch_place);
  if (!pool) return std::nullopt;
  const Environment base = template_environment(rank.environment, TemplateUse::warm);
  const std::string state = inherited_state(rank.executable) + "CPUs: " + join_ranges(rank.cpus);
  return Warm{std::move(*pool),
              warm_key(rank.arguments, parts.spec.preload, base, state),
              find_variable(rank.environment, "DDP_AGENT_ID").value_or("")};
}

std::string describe_unused(pid_t pid, const std::string& why) {
  return "preload: the warm template, pid " + std::to_string(pid) + ", is not used: " + why;
}

/// Why the warm template that is most like what this job needs does not fit; empty: none is for the
/// same script.
std::string explain_others(const Warm& warm) {
  std::string nearest;
  for (const WarmPool::OtherKey& other : warm.pool.other_keys()) {
    const std::optional<std::string> why = find_other_part(other.key, warm.key);
    if (!why) continue;
    const std::string line = describe_unused(other.pid, *why);
    if (nearest.empty() || line.size() < nearest.size()) nearest = line;
  }
  return nearest;
}

/// A warm template that serves this job from now on. Null: none fits.
std::shared_ptr<RankTemplate> find_warm(const PreloadParts& parts,
                                        const ProcessSpec& rank,
                                        const Warm& warm) {
  Descriptor connection = warm.pool.find(warm.key);
  if (!connection) {
    if (const std::string line = explain_others(warm); !line.empty()) parts.console.info(line);
    return nullptr;
  }
  const pid_t pid = listener_of(connection.fd());
  auto source = std::make_shared<RankTemplate>(parts.io, rank);
  const std::string problem = source->join(warm.key, warm.agent_id, std::move(connection));
  if (!problem.empty()) {
    parts.console.info(describe_unused(pid, problem));
    return nullptr;
  }
  parts.console.debug("preload: the warm template, pid " + std::to_string(pid) +
                      ", serves this job");
  return source;
}

/// Starts a template. Null: it cannot be started, and a line has said so.
std::shared_ptr<RankTemplate> start_template(const PreloadParts& parts,
                                             const ProcessSpec& rank,
                                             const std::optional<Warm>& warm) {
  try {
    std::optional<WarmPool::BoundSocket> warm_socket;
    if (warm) warm_socket = warm->pool.bind_socket(warm->key, parts.spec.preload_idle);
    auto source = parts.spec.warm_start
                      ? RankTemplate::start_worker(parts.io, rank)
                      : std::make_shared<RankTemplate>(
                            parts.io, rank, parts.spec.preload, std::move(warm_socket));
    asio::co_spawn(parts.io, pass_on(source, parts.inbox), rethrow);
    return source;
  } catch (const SystemError& error) {
    give_up(parts, error.what());
    return nullptr;
  }
}

/// Removes the ranks that are started without the template: those with a wrapper; and all of them
/// if a rank of the job has a debugger, as the others wait for it anyway, and copies share the
/// template's stdin.
void remove_cold(const PreloadParts& parts, std::vector<Placement>& ranks) {
  std::string cold;
  std::erase_if(ranks, [&](const Placement& placement) {
    const bool is_one = is_wrapped(parts.spec.wrappers, placement.rank) || parts.has_debugger;
    if (is_one) add_word(cold, std::to_string(placement.rank));
    return is_one;
  });
  if (cold.empty()) return;
  if (!parts.spec.warm_start)
    parts.console.info("preload: started without it, by --wrap or --debug: rank " + cold);
}

/// Why the ranks cannot be copies of a template. `rank`: how one would be started. Nothing: they
/// can.
std::optional<std::string> find_obstacle(const JobSpec& spec, const ProcessSpec& rank) {
  if (auto obstacle = find_preload_obstacle(spec)) return obstacle;
  if (spec.warm_start) return std::nullopt;
  const std::string program = read_file(rank.executable, kMostScript).value_or("");
  if (const auto name = find_rank_variable(program))
    return rank.executable + " is a script that names " + *name;
  return std::nullopt;
}

/// Waits for the template. Nothing: it is ready. Else why it is not; empty: the round must end.
asio::awaitable<std::optional<std::string>> await_ready(PreloadParts parts,
                                                        std::shared_ptr<RankTemplate> source) {
  using Kind = TemplateMessage::Kind;
  const Clock::time_point begin = Clock::now();
  const std::chrono::seconds limit = parts.spec.warm_start ? kLoadLimit : kImportLimit;
  const std::string name = "the template, pid " + std::to_string(source->pid());
  std::string doing = "its start";
  std::string modules = join_words(parts.spec.preload);
  bool has_said_so = false;
  while (!parts.commands.end_command()) {
    const std::optional<AgentEvent> event = co_await parts.inbox.next(Clock::now() + kStopPause);
    if (event) parts.group.note(*event);
    const auto* const report = event ? std::get_if<TemplateReported>(&*event) : nullptr;
    if (!has_said_so && Clock::now() - begin > kLongImport) {
      has_said_so = true;
      parts.console.info(parts.spec.warm_start
                             ? "loading LibTorch once for all ranks (launch.warm_start) ..."
                             : "importing " + modules + " once for all ranks (--preload) ...");
    }
    if (report == nullptr) {
      if (source->is_stopped()) co_return name + ", is stopped (" + doing + ")";
      if (Clock::now() - begin > limit) co_return name + ", takes too long (" + doing + ")";
      continue;
    }
    const TemplateMessage& message = report->message;
    if (message.kind == Kind::chosen) {
      modules = message.text;
      parts.console.info("preload: auto takes " + modules);
    }
    if (message.kind == Kind::importing) doing = "import of " + message.text;
    if (message.kind == Kind::unfit) co_return message.text;
    if (message.kind == Kind::ended)
      co_return name + ", has ended (" + doing + ")" +
          (message.text.empty() ? "" : ": " + message.text);
    if (message.kind != Kind::ready) continue;
    const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    parts.console.debug(template_name(parts.spec) + ": " + name + ", is ready after " +
                        std::to_string(taken.count()) + " ms");
    co_return std::nullopt;
  }
  co_return "";
}

}  // namespace

asio::awaitable<std::shared_ptr<RankTemplate>> make_template(PreloadParts parts,
                                                             std::vector<Placement> ranks) {
  remove_cold(parts, ranks);
  if (ranks.empty()) co_return nullptr;
  ProcessSpec rank = parts.group.plan_process(ranks.front());
  if (parts.spec.nproc > 1) rank.cpus.clear();  // each copy gets its own
  if (const auto obstacle = find_obstacle(parts.spec, rank)) {
    give_up(parts, *obstacle);
    co_return nullptr;
  }
  std::optional<Warm> warm;
  if (!parts.spec.warm_start) warm = open_pool(parts, rank);
  std::shared_ptr<RankTemplate> source = warm ? find_warm(parts, rank, *warm) : nullptr;
  std::optional<std::string> problem;
  if (!source) {
    source = start_template(parts, rank, warm);
    if (!source) co_return nullptr;
    parts.group.use_template(source.get());
    problem = co_await await_ready(parts, source);
    if (warm && !problem) {
      const std::string why_not =
          source->join(warm->key, warm->agent_id, warm->pool.find(warm->key));
      if (!why_not.empty()) problem = "the template: " + why_not;
      warm->pool.make_room(warm->key);
    }
    if (warm) warm->pool.tidy();
  }
  parts.group.use_template(problem ? nullptr : source.get());
  if (!problem) co_return source;
  if (!problem->empty()) give_up(parts, *problem);
  source->end();
  co_return nullptr;
}

}  // namespace ddp::launcher
