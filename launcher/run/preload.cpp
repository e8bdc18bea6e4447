#include "launcher/run/preload.h"

#include <string>
#include <variant>

#include "common/error.h"
#include "common/files/files.h"
#include "launcher/plan/start/preload.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostScript = 64 << 10;  // bytes of a script in the place of the interpreter
constexpr std::chrono::milliseconds kStopPause(200);  // between two looks whether it is stopped

void give_up(Console& console, const std::string& why) {
  console.warning("preload: " + why + "; starting without it");
}

/// A source. Owners of the template: this coroutine, and the caller, which may end it.
asio::awaitable<void> pass_on(std::shared_ptr<PythonTemplate> source, Inbox<AgentEvent>& inbox) {
  using Kind = TemplateMessage::Kind;
  Kind kind = Kind::importing;
  while (kind == Kind::importing || kind == Kind::chosen) {
    TemplateTold told;
    told.message = co_await source->listen();
    kind = told.message.kind;
    inbox.push(std::move(told));
  }
}

/// Null: it cannot be started, which is said.
std::shared_ptr<PythonTemplate> start_template(PreloadParts parts, const Placement& first) {
  if (const auto obstacle = find_preload_obstacle(parts.spec)) {
    give_up(parts.console, *obstacle);
    return nullptr;
  }
  try {
    ProcessSpec rank = parts.group.plan_process(first);
    const std::string program = read_file(rank.executable, kMostScript).value_or("");
    if (const auto name = find_rank_variable(program)) {
      give_up(parts.console, rank.executable + " is a script that names " + *name);
      return nullptr;
    }
    if (parts.spec.nproc > 1) rank.cpus.clear();  // each copy gets its own
    auto source = std::make_shared<PythonTemplate>(parts.io, rank, parts.spec.preload);
    parts.group.use_template(source.get());
    asio::co_spawn(parts.io, pass_on(source, parts.inbox), rethrow);
    return source;
  } catch (const SystemError& error) {
    give_up(parts.console, error.what());
    return nullptr;
  }
}

}  // namespace

asio::awaitable<std::shared_ptr<PythonTemplate>> make_template(PreloadParts parts,
                                                               Placement first) {
  using Kind = TemplateMessage::Kind;
  std::shared_ptr<PythonTemplate> source = start_template(parts, first);
  const Clock::time_point begin = Clock::now();
  std::string doing = "its start";
  std::string problem;
  while (source && problem.empty() && !parts.commands.end_command()) {
    const std::optional<AgentEvent> event = co_await parts.inbox.next(Clock::now() + kStopPause);
    if (event) parts.group.note(*event);
    const auto* const told = event ? std::get_if<TemplateTold>(&*event) : nullptr;
    const std::string name = "the template, pid " + std::to_string(source->pid());
    if (told == nullptr) {
      if (source->is_stopped()) problem = name + ", is stopped (" + doing + ")";
      if (Clock::now() - begin > kImportLimit) problem = name + ", takes too long (" + doing + ")";
      continue;
    }
    const TemplateMessage& message = told->message;
    if (message.kind == Kind::chosen) parts.console.info("preload: auto takes " + message.text);
    if (message.kind == Kind::importing) doing = "import of " + message.text;
    if (message.kind == Kind::unfit) problem = message.text;
    if (message.kind == Kind::ended)
      problem =
          name + ", has ended (" + doing + ")" + (message.text.empty() ? "" : ": " + message.text);
    if (message.kind != Kind::ready) continue;
    const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    parts.console.debug("preload: " + name + ", is ready after " + std::to_string(taken.count()) +
                        " ms");
    co_return source;
  }
  if (!source) co_return nullptr;
  if (!problem.empty()) give_up(parts.console, problem);
  parts.group.use_template(nullptr);
  source->end();
  co_return nullptr;
}

}  // namespace ddp::launcher
