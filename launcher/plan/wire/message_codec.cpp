#include "launcher/plan/wire/message_codec.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "launcher/plan/job_size.h"
#include "launcher/plan/output/console_text.h"
#include "launcher/plan/wire/message_fields.h"

namespace ddp::launcher {
namespace wire {

// --- The fields of each message.

template <typename Io>
void fields(Io& io, A<Hello> auto& m) {
  io.field("protocol", m.protocol);
  io.field("version", m.version);
  if (m.protocol != kProtocolVersion) return;
  io.field("user_run_id", m.user_run_id);
  io.field("node_rank", m.node_rank, kNode);
  io.field("min_nodes", m.min_nodes, Range{1, kMaxNodes});
  io.field("max_nodes", m.max_nodes, Range{1, kMaxNodes});
  io.field("nproc", m.nproc, Range{1, kMaxWorkersOfNode});
  io.field("role", m.role);
  io.field("host", m.host);
  io.field("pid", m.pid, kPid);
  io.field("entry", m.entry);
  io.field("is_question", m.is_question);
  io.maybe_flag("has_debugger", m.has_debugger);
  io.field("problem_code", m.problem_code, kCode);
  io.field("problem", m.problem);
  io.field("job_keys", m.job_keys);
}

template <typename Io>
void fields(Io& io, A<Welcome> auto& m) {
  io.field("run_id", m.run_id);
  io.field("user_run_id", m.user_run_id);
  io.field("host", m.host);
}

template <typename Io>
void fields(Io& io, A<Refusal> auto& m) {
  io.field("code", m.code, kFailure);
  io.field("text", m.text);
}

template <typename Io>
void fields(Io& io, A<TerminalSize> auto& m) {
  io.field("columns", m.columns, kTerminalSide);
  io.field("rows", m.rows, kTerminalSide);
}

template <typename Io>
void fields(Io& io, A<NodeZeroTerminal> auto& m) {
  io.field("local_rank", m.local_rank, kLocalRank);
  io.field("size", m.size);
  io.field("term", m.term);
  io.field("erase", m.erase, kCode);
  io.field("is_utf8", m.is_utf8);
}

template <typename Io>
void fields(Io& io, A<StartRound> auto& m) {
  io.field("round", m.round);
  io.field("node_rank", m.node_rank, kNode);
  io.field("workers_of_node", m.workers_of_node, Range{1, kMaxWorkersOfNode});
  io.field("role_of_node", m.role_of_node, kNode);
  io.field("master_port", m.master_port, kPort);
  io.field("run_dir", m.run_dir);
  io.maybe_flag("has_debugger", m.has_debugger);
  io.maybe_field("terminal", m.terminal);
}

template <typename Io>
void fields(Io& io, A<AnnounceStop> auto& m) {
  io.field("round", m.round);
  io.field("line", m.line);
}

template <typename Io>
void fields(Io& io, A<EndRound> auto& m) {
  io.field("round", m.round);
  io.field("reason", m.reason, Range{0, static_cast<std::int64_t>(EndReason::job_ended)});
  io.field("what", m.what);
  io.field("signal", m.signal, kSignal);
  io.field("grace", m.grace, kGrace);
  io.field("keeps_survivors", m.keeps_survivors);
}

template <typename Io>
void fields(Io& io, A<EndJob> auto& m) {
  io.field("exit_code", m.exit_code, kCode);
  io.field("state", m.state, Range{0, static_cast<std::int64_t>(RunState::failed)});
  io.whole_text("report", m.report);
  io.whole_text("members", m.members);
  io.whole_text("error_text", m.error_text);
}

template <typename Io>
void fields(Io& io, A<LinePart> auto& m) {
  io.field("importance", m.drop_order);
  io.field("text", m.text);
}

template <typename Io>
void fields(Io& io, A<Heartbeat> auto& m) {
  io.field("sent", m.sent_ns, kNotNegative);
  io.field("line", m.line);
  io.field("wants_lines", m.wants_lines);
}

template <typename Io>
void fields(Io& io, A<TerminalInput> auto& m) {
  io.bytes("bytes", m.bytes);
}

template <typename Io>
void fields(Io& io, A<TerminalResized> auto& m) {
  io.field("size", m.size);
}

template <typename Io>
void fields(Io&, A<TerminalShown> auto&) {}

template <typename Io>
void fields(Io&, A<TerminalTaken> auto&) {}

template <typename Io>
void fields(Io& io, A<TerminalOutput> auto& m) {
  io.bytes("bytes", m.bytes);
  io.field("is_over", m.is_over);
}

template <typename Io>
void fields(Io& io, A<GroupStarted> auto& m) {
  io.field("round", m.round);
  io.field("begin", m.begin_ns, kNotNegative);
  io.field("pids", m.pids, kPid);
}

template <typename Io>
void fields(Io& io, A<ExitStatus> auto& m) {
  io.field("code", m.code, kCode);
  io.field("signal", m.signal, kSignal);
  io.field("core", m.core);
}

template <typename Io>
void fields(Io& io, A<Ending> auto& m) {
  io.field("rank", m.rank, kRank);
  io.field("status", m.status);
  io.field("at", m.at, kSigned);
  io.field("stop_sent", m.stop_sent);
  io.field("kill_sent", m.kill_sent);
  io.field("abort_sent", m.abort_sent);
  io.field("opened_page", m.opened_page);
  io.field("phase", m.phase, Range{0, static_cast<std::int64_t>(kLastPhase)});
  io.field("joined_store", m.joined_store);
  io.field("was_frozen", m.was_frozen);
  io.field("was_asked_elsewhere", m.was_asked_elsewhere);
}

template <typename Io>
void fields(Io& io, A<Frame> auto& m) {
  io.field("function", m.function);
  io.field("file", m.file);
  io.field("line", m.line);
}

template <typename Io>
void fields(Io& io, A<ThreadStack> auto& m) {
  io.field("name", m.name);
  io.field("is_main", m.is_main);
  io.field("frames", m.frames);
}

template <typename Io>
void fields(Io& io, A<Stacks> auto& m) {
  io.field("threads", m.threads);
  io.field("idle", m.idle);
}

template <typename Io>
void fields(Io& io, A<WorkerReport> auto& m) {
  io.field("ending", m.ending);
  io.field("node_rank", m.node_rank, kNode);
  io.field("host", m.host);
  io.field("local_rank", m.local_rank, kLocalRank);
  io.field("pid", m.pid, kPid);
  io.field("lived", m.lived, kNotNegative);
  io.field("ended_at", m.ended_at, kWallClock);
  io.field("step", m.step, kSigned);
  io.field("steps_total", m.steps_total, kSigned);
  io.field("checkpoint_step", m.checkpoint_step, kSigned);
  io.field("error_file", m.error_file);
  io.whole_text("error_text", m.error_text);
  io.field("last_lines", m.last_lines);
  io.field("hidden_lines", m.hidden_lines);
  io.field("findings", m.death_facts);
  io.field("rerun", m.rerun);
  io.field("stacks", m.stacks);
}

template <typename Io>
void fields(Io& io, A<WorkerEnded> auto& m) {
  io.field("round", m.round);
  io.field("worker", m.worker);
}

template <typename Io>
void fields(Io& io, A<GroupEnded> auto& m) {
  io.field("round", m.round);
  io.field("workers", m.workers);
  io.field("unkilled", m.unkilled);
  io.field("gpu_error", m.gpu_error);
  io.field("survivors", m.survivors, Range{0, kMaxWorkersOfNode});
  io.field("survivor_step", m.survivor_step, kSigned);
}

template <typename Io>
void fields(Io& io, A<AgentFailed> auto& m) {
  io.field("round", m.round);
  io.field("code", m.code, kFailure);
  io.field("text", m.text);
}

template <typename Io>
void fields(Io& io, A<StopRequested> auto& m) {
  io.field("signal", m.signal, Range{1, kSignal.most});
}

template <typename Io>
void fields(Io& io, A<Activity> auto& m) {
  io.field("state", m.state, Range{0x20, 0x7e});
  io.field("in", m.waits_in);
  io.field("main", m.main_ticks, kNotNegative);
  io.field("cpu", m.ticks, kNotNegative);
  io.field("naps", m.voluntary_switches, kNotNegative);
  io.field("faults", m.minor_faults, kNotNegative);
  io.field("io", m.io_bytes, kNotNegative);
  io.field("rss", m.resident_bytes, kNotNegative);
}

template <typename Io>
void fields(Io& io, A<TimeSpent> auto& m) {
  io.field("data", m.data, kNotNegative);
  io.field("fw", m.forward, kNotNegative);
  io.field("bw", m.backward, kNotNegative);
  io.field("rest", m.training, kNotNegative);
  io.field("eval", m.evaluating, kNotNegative);
  io.field("save", m.saving, kNotNegative);
  io.field("wait", m.waiting, kNotNegative);
}

template <typename Io>
void fields(Io& io, A<NodeDelays> auto& m) {
  io.field("wait", m.core_wait, kNotNegative);
  io.field("periods", m.quota_periods, kNotNegative);
  io.field("quota", m.throttled_periods, kNotNegative);
  io.field("disk", m.disk_wait, kNotNegative);
  io.field("core", m.core, kNotNegative);
  io.field("hot", m.hot, kNotNegative);
  io.field("faults", m.major_faults, kNotNegative);
}

// Short names, so that the samples of kMaxWorkersOfNode fit into a frame.
template <typename Io>
void fields(Io& io, A<WorkerSample> auto& m) {
  io.field("rank", m.rank, kRank);
  io.field("alive", m.alive);
  io.field("page", m.has_page);
  io.field("phase", m.phase, Range{0, static_cast<std::int64_t>(kLastPhase)});
  io.field("in", m.in_collective);
  io.field("epoch", m.epoch, kSigned);
  io.field("step", m.step, kSigned);
  io.field("of", m.steps_total, kSigned);
  io.field("seen", m.samples, kSigned);
  io.field("loss", m.loss);
  io.field("lr", m.lr);
  io.field("saved", m.checkpoint_step, kSigned);
  io.field("at", m.written_ns, kSigned);
  io.field("data", m.data_wait_ns, kSigned);
  io.field("gpu", m.device_bytes, kSigned);
  io.field("acc", m.accuracy);
  io.field("act", m.activity);
  io.field("out", m.output_bytes, kNotNegative);
  io.field("well", m.ended_well);
  io.field("end", m.ended_at, kSigned);
  io.field("met", m.joined_store);
  io.field("waits", m.waits_since, kSigned);
  io.maybe_field("spent", m.spent);
  io.maybe_field("held", m.delays);
}

template <typename Io>
void fields(Io& io, A<HeartbeatReply> auto& m) {
  io.field("round", m.round);
  io.field("sent", m.sent_ns, kNotNegative);
  io.field("echo", m.echo_ns, kNotNegative);
  io.field("echo_age", m.echo_age_ns, kNotNegative);
  io.field("samples", m.samples);
  io.field("lines", m.last_lines);
}

template <>
constexpr std::string_view kType<Hello> = "hello";
template <>
constexpr std::string_view kType<Welcome> = "welcome";
template <>
constexpr std::string_view kType<Refusal> = "refusal";
template <>
constexpr std::string_view kType<StartRound> = "start-round";
template <>
constexpr std::string_view kType<AnnounceStop> = "announce-stop";
template <>
constexpr std::string_view kType<EndRound> = "end-round";
template <>
constexpr std::string_view kType<EndJob> = "end-job";
template <>
constexpr std::string_view kType<Heartbeat> = "heartbeat";
template <>
constexpr std::string_view kType<TerminalInput> = "terminal-input";
template <>
constexpr std::string_view kType<TerminalResized> = "terminal-resized";
template <>
constexpr std::string_view kType<TerminalShown> = "terminal-shown";
template <>
constexpr std::string_view kType<TerminalOutput> = "terminal-output";
template <>
constexpr std::string_view kType<TerminalTaken> = "terminal-taken";
template <>
constexpr std::string_view kType<GroupStarted> = "group-started";
template <>
constexpr std::string_view kType<WorkerEnded> = "worker-ended";
template <>
constexpr std::string_view kType<GroupEnded> = "group-ended";
template <>
constexpr std::string_view kType<AgentFailed> = "agent-failed";
template <>
constexpr std::string_view kType<StopRequested> = "stop-requested";
template <>
constexpr std::string_view kType<HeartbeatReply> = "heartbeat-reply";

template <>
bool is_valid(const Hello& m) {
  return m.min_nodes <= m.max_nodes;
}
/// The run id becomes part of paths and of the environment.
template <>
bool is_valid(const Welcome& m) {
  constexpr std::size_t kLongest = 64;
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  };
  return !m.run_id.empty() && m.run_id.size() <= kLongest &&
         std::ranges::all_of(m.run_id, is_plain);
}
template <>
bool is_valid(const StartRound& m) {
  constexpr std::size_t kLongestPath = 4096;
  const auto& counts = m.workers_of_node;
  const auto nodes = static_cast<int>(counts.size());
  const bool has_place = nodes <= kMaxNodes && m.node_rank < nodes;
  const bool has_roles =
      m.role_of_node.size() == counts.size() &&
      std::ranges::all_of(m.role_of_node, [nodes](int role) { return role < nodes; });
  const bool is_plain = !has_control(m.run_dir);  // it is printed
  const bool is_path = m.run_dir.empty() ||
                       (m.run_dir.starts_with('/') && is_plain && m.run_dir.size() < kLongestPath);
  return has_place && has_roles && is_path &&
         std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) <= kMaxWorkers;
}
/// It becomes a variable of the worker.
template <>
bool is_valid(const NodeZeroTerminal& m) {
  return m.term.size() <= kLongestTerm && !has_control(m.term);
}
template <>
bool is_valid(const GroupStarted& m) {
  return m.pids.size() <= kMaxWorkersOfNode;
}
template <>
bool is_valid(const HeartbeatReply& m) {
  return m.samples.size() <= kMaxWorkersOfNode;
}
template <>
bool is_valid(const GroupEnded& m) {
  return m.workers.size() <= kMaxWorkersOfNode;
}

// --- Shortens messages that may be too long.

namespace {

/// Keeps the newest lines, at most `most` bytes of them, each cut to kLongestLine.
void keep_newest(std::vector<std::string>& lines, std::size_t most) {
  std::size_t bytes = 0;
  std::size_t newest = 0;  // number of newest lines that fit
  while (newest < lines.size()) {
    std::string& line = lines[lines.size() - 1 - newest];
    if (line.size() > kLongestLine) line = cleaned(line, kLongestLine);
    bytes += line.size() + 1;
    if (bytes > most) break;
    ++newest;
  }
  lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(newest));
}

void cut(WorkerReport& worker, std::size_t most) {
  keep_newest(worker.last_lines, most);
  keep_newest(worker.hidden_lines, most);
  worker.stacks = shortened(std::move(worker.stacks), most);
  if (worker.error_text.size() > most)
    worker.error_text.clear();                // half of a JSON text is not JSON
  constexpr std::size_t kRoomForRest = 4096;  // death_facts say why it died
  if (most >= kRoomForRest) return;
  keep_newest(worker.death_facts, most);
  if (worker.rerun.size() > most) worker.rerun.clear();
}

void cut(GroupEnded& ended, std::size_t most) {
  for (WorkerReport& worker : ended.workers)
    cut(worker, most);
  keep_newest(ended.unkilled, 16 * most);
}

void cut(EndJob& end, std::size_t most) {
  if (end.error_text.size() > most) end.error_text.clear();
  if (end.report.size() > most) end.report = cleaned(end.report, most) + " (cut)\n";
  if (end.members.size() > most) end.members.clear();
}

template <typename M>
std::string write_shortened(M message, std::size_t most) {
  while (true) {
    cut(message, most);
    const std::string text = write_message(message);
    if (text.size() <= kLongestFrame || most == 0) return text;
    most /= 2;
  }
}

std::string write_any(const GroupEnded& message) {
  return write_shortened(message, kLongestFrame);
}
/// An EndJob goes to all nodes at once and must arrive quickly.
std::string write_any(const EndJob& message) {
  return write_shortened(message, kLongestEndText);
}
template <typename M>
std::string write_any(const M& message) {
  return write_message(message);
}

}  // namespace
}  // namespace wire

std::string encode(const Hello& hello) {
  return wire::write_message(hello);
}
std::string encode(const Welcome& welcome) {
  return wire::write_message(welcome);
}
std::string encode(const Refusal& refusal) {
  return wire::write_message(refusal);
}
std::string encode(const NodeCommand& command) {
  return std::visit([](const auto& message) { return wire::write_any(message); }, command);
}
std::string encode(const NodeEvent& event) {
  return std::visit([](const auto& message) { return wire::write_any(message); }, event);
}

std::optional<Hello> decode_hello(std::string_view text) {
  std::optional<std::variant<Hello>> message = wire::decode<std::variant<Hello>>(text);
  if (!message) return std::nullopt;
  Hello hello = std::get<Hello>(std::move(*message));
  for (std::string* const shown : {&hello.version, &hello.host, &hello.entry})
    *shown = plain_line(*shown, kLongestName);
  hello.problem = plain_line(hello.problem, kLongestLine);
  return hello;
}
std::optional<Answer> decode_answer(std::string_view text) {
  std::optional<Answer> answer = wire::decode<Answer>(text);
  if (!answer) return std::nullopt;
  if (auto* const welcome = std::get_if<Welcome>(&*answer))
    welcome->host = plain_line(welcome->host, kLongestName);
  if (auto* const refusal = std::get_if<Refusal>(&*answer))
    refusal->text = clean_lines(refusal->text);
  return answer;
}
std::optional<NodeCommand> decode_command(std::string_view text) {
  std::optional<NodeCommand> command = wire::decode<NodeCommand>(text);
  if (!command) return std::nullopt;
  if (auto* const announce = std::get_if<AnnounceStop>(&*command))
    announce->line = plain_line(announce->line, kLongestLine);
  if (auto* const stop = std::get_if<EndRound>(&*command))
    stop->what = plain_line(stop->what, kLongestLine);
  if (auto* const end = std::get_if<EndJob>(&*command)) end->report = clean_lines(end->report);
  return command;
}
std::optional<NodeEvent> decode_event(std::string_view text) {
  std::optional<NodeEvent> event = wire::decode<NodeEvent>(text);
  if (!event) return std::nullopt;
  if (auto* const failed = std::get_if<AgentFailed>(&*event))
    failed->text = clean_lines(failed->text);
  if (auto* const ended = std::get_if<GroupEnded>(&*event))
    ended->gpu_error = plain_line(ended->gpu_error, kLongestLine);
  return event;
}

}  // namespace ddp::launcher
