#include "launcher/run/gpu_memory_wait.h"

#include <memory>
#include <utility>

#include "common/error.h"
#include "launcher/os/gpu_question.h"

namespace ddp::launcher {
namespace {

/// A source. Owners of the question: this, and who may give it up.
asio::awaitable<void> pass_on(std::shared_ptr<GpuQuestion> question, Inbox<AgentEvent>& inbox) {
  GpuHoldersTold told;
  told.holders = co_await question->answer();
  inbox.push(std::move(told));
}

/// Null: it cannot be asked.
std::shared_ptr<GpuQuestion> ask(asio::io_context& io,
                                 Inbox<AgentEvent>& inbox,
                                 WorkerGroup& group) {
  try {
    auto question = std::make_shared<GpuQuestion>(io);
    group.exempt({question->pid()});
    asio::co_spawn(io, pass_on(question, inbox), rethrow);
    return question;
  } catch (const SystemError&) {
    return nullptr;
  }
}

}  // namespace

asio::awaitable<void> wait_for_gpu_memory(asio::io_context& io,
                                          Inbox<AgentEvent>& inbox,
                                          Console& console,
                                          WorkerGroup& group,
                                          const NodeCommands& commands,
                                          std::vector<FormerWorker> former) {
  GpuMemoryWait wait(std::move(former), Clock::now());
  std::shared_ptr<GpuQuestion> question = ask(io, inbox, group);
  Deadline next = kNoDeadline;  // of the questions
  while (!commands.end_command() && (question || next != kNoDeadline)) {
    const std::optional<AgentEvent> event = co_await inbox.next(next);
    if (!event) {
      question = ask(io, inbox, group);
      next = kNoDeadline;
      continue;
    }
    group.note(*event);
    const auto* const told = std::get_if<GpuHoldersTold>(&*event);
    if (told == nullptr) continue;
    question.reset();
    const GpuMemoryWait::Step step = wait.take(told->holders, Clock::now());
    if (step.is_warning) {
      console.warning(step.line);
    } else if (!step.line.empty()) {
      console.info(step.line);
    }
    if (step.waits) next = Clock::now() + GpuMemoryWait::kPause;
  }
  if (question) question->give_up();
  group.exempt({});
}

}  // namespace ddp::launcher
