#include "launcher/run/coordinator.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "common/error.h"
#include "common/exit_code.h"
#include "common/units.h"
#include "launcher/plan/exit_status.h"
#include "launcher/plan/message_codec.h"
#include "launcher/plan/placement.h"
#include "launcher/run/report.h"
#include "launcher/run/worker_group.h"

namespace ddp::launcher {
namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::seconds kFlushWait(2);  // for a node that is to hear the verdict
// From the end of the grace to the last report of a node that can still report.
constexpr Clock::duration kReportWait =
    WorkerGroup::kKillWait + WorkerGroup::kDrainWait + std::chrono::seconds(5);
constexpr std::chrono::milliseconds kQuiet(2500);  // is said of a node once it is heard again

std::int64_t steady_ns() {
  return std::chrono::duration_cast<nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// When the first worker ended that had not ended well, since the round's begin.
std::optional<nanoseconds> first_failure(const std::vector<Ending>& endings) {
  std::optional<nanoseconds> first;
  for (const Ending& ending : endings) {
    if (!has_failed(ending) && !was_stopped(ending)) continue;
    first = std::min(first.value_or(ending.at), ending.at);
  }
  return first;
}

std::string one_decimal(nanoseconds time) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

/// A node of the job, and how far it is in the round.
struct Coordinator::Node {
  int id = 0;
  std::shared_ptr<ControlLink> link;  // null: our own
  ClockOffset clock;
  std::optional<Clock::time_point> quiet_since;
  std::string host;
  int rank = -1;                 // of the node in this round; -1: it waits for the next one
  std::size_t first_worker = 0;  // their ranks
  std::size_t workers = 0;
  bool has_started = false;
  bool has_ended = false;
  std::int64_t begin_ns = 0;  // of its round, on its clock
  Clock::time_point started_at;
  std::vector<WorkerSample> samples;
  GroupEnded end;
};

Coordinator::Coordinator(asio::io_context& io, Console& console, const JobSpec& spec, Job job)
    : io_(io),
      console_(console),
      spec_(spec),
      job_(std::move(job)),
      inbox_(io),
      store_(io, console, spec),
      own_address_(spec.master_addr),
      roster_(job_.own, spec.replace_timeout.has_value()),
      beat_timer_(io) {
  auto own = std::make_unique<Node>();
  own->host = job_.own.host;
  nodes_.emplace(0, std::move(own));
  if (spec.max_nodes == 1) return;
  door_ = std::make_unique<AgentDoor>(
      io,
      spec.token,
      spec.max_nodes,
      [this](const std::string& text) { console_.warning(text); },
      [this](const Hello& hello, const std::shared_ptr<ControlLink>& link) {
        inbox_.push(NodeCame{hello, link});
      });
  store_.endpoint()->serve_agents([this](tcp::socket socket, const std::string& bytes) {
    door_->admit(std::move(socket), bytes);
  });
}

Coordinator::~Coordinator() = default;

void Coordinator::start() {
  store_.start();
  asio::co_spawn(io_, story(), rethrow);
  if (door_) asio::co_spawn(io_, beat(), rethrow);
}

void Coordinator::take(const News& news) {
  inbox_.push(NewsCame{0, news});
}

asio::awaitable<void> Coordinator::story() {
  RestartPolicy policy(RestartLimits{spec_.max_restarts, spec_.died_within});
  bool is_here = co_await gather(spec_.join_timeout);
  while (is_here) {
    // All nodes have joined; node ranks are fixed.
    if (!begin_round(policy.used())) break;
    // Ranks are fixed, and every node is told to start.
    co_await watch();
    co_await stop();
    // No process of this round lives on any node that can be heard, or it is named.
    const RoundResult round = conclude();
    // The root cause is known and does not change.
    const RestartDecision decision = policy.decide(round);
    say_restart(round, decision);
    if (!decision.restart) break;
    co_await pause(decision);
    is_here = co_await gather(spec_.replace_timeout.value_or(std::chrono::milliseconds(0)));
  }
  // The verdict is the same on every node.
  co_await end();
}

/// Waits until the nodes of the next round are here. False: they are not, or the user stops the
/// job; then the verdict says so.
asio::awaitable<bool> Coordinator::gather(std::chrono::milliseconds limit) {
  const bool is_first = round_.number < 0;
  const Deadline last = Clock::now() + limit;
  Deadline roll = Clock::now() + kRollCall;
  std::optional<Deadline> last_call;
  while (!press_) {
    const Clock::time_point now = Clock::now();
    if (now >= fence_) {
      if (roster_.is_full() || (roster_.is_enough() && !is_first)) co_return true;
      if (roster_.is_enough() && !last_call) last_call = now + spec_.last_call;
      if (last_call && now >= *last_call) co_return true;
    }
    if (!roster_.is_enough()) last_call.reset();
    if (!last_call && now >= std::max(last, fence_)) break;
    if (now >= roll) {
      console_.info(roster_.who_is_missing());
      roll += kRollCall;
    }
    Deadline next = std::min(roll, last_call.value_or(std::max(last, fence_)));
    if (now < fence_) next = std::min(next, fence_);
    std::optional<Event> event = co_await inbox_.next(next);
    if (event) note(*event);
  }
  if (press_) {
    // It came when there was no worker that could be told.
    verdict_.outcome = Stopped{*press_};
    verdict_.exit_code = exit_code::of_signal(*press_);
  } else if (is_first) {
    verdict_.failure = "the job has not begun: " + roster_.who_is_missing() + "; waited " +
                       format_duration(limit) +
                       ". Start them with the same --nnodes, --master-addr and --master-port.";
    verdict_.exit_code = exit_code::kRendezvous;
  } else {
    verdict_.policy = "no other node came within " + format_duration(limit);
  }
  co_return false;
}

/// False: the round cannot begin, and the verdict says why.
bool Coordinator::begin_round(int number) {
  round_ = Round();
  round_.number = number;
  first_press_.reset();
  is_killing_ = false;
  StartRound start;
  start.round = number;
  const std::vector<int> seated = roster_.seat();
  for (const auto& [id, node] : nodes_)
    node->rank = -1;
  for (const int id : seated) {
    Node& node = *nodes_.at(id);
    node.rank = static_cast<int>(start.workers_of_node.size());
    node.has_started = node.has_ended = false;
    node.samples.clear();
    node.end = GroupEnded();
    node.first_worker = round_.places.size();
    node.workers = static_cast<std::size_t>(roster_.find(id).hello.nproc);
    start.workers_of_node.push_back(roster_.find(id).hello.nproc);
    for (std::size_t i = 0; i < node.workers; ++i) {
      RankPlace place;
      place.rank = static_cast<int>(round_.places.size());
      if (node.link) place.address = node.link->peer_address();
      round_.places.push_back(place);
    }
  }
  const auto world_size = static_cast<int>(round_.places.size());
  try {
    if (number == 0) run_dir_ = job_.choose_run_dir(world_size);
    start.master_port = store_.begin_round();
  } catch (const Error& error) {
    verdict_.failure = error.what();
    verdict_.exit_code = error.code();
    return false;
  }
  start.run_dir = run_dir_.string();
  if (door_) store_.endpoint()->hold();
  live_ = LiveLine();
  watchdog_.emplace(WatchLimits{spec_.hang_timeout, spec_.own_worker});
  verdict_.rounds = number + 1;
  verdict_.world_size = world_size;
  round_.begin = Clock::now();
  for (const int id : seated) {
    start.node_rank = nodes_.at(id)->rank;
    send(*nodes_.at(id), start);
  }
  return true;
}

/// Until all workers have ended, one has failed or hangs, a node is lost, or the job is stopped: by
/// the user, or because one worker was asked to, by somebody else, and the others do not follow it
/// in time.
asio::awaitable<void> Coordinator::watch() {
  // A job may run for weeks: what ends it is an event.
  Deadline leave_deadline = kNoDeadline;
  while (!is_over()) {
    std::optional<Event> event = co_await inbox_.next(leave_deadline);
    if (event) note(*event);
    if (!round_.leaver) continue;
    if (leave_deadline == kNoDeadline) {
      // All ranks agree to stop before one does: they are on their way.
      leave_deadline = Clock::now() + spec_.grace;
      AnnounceStop announce;
      announce.round = round_.number;
      announce.line = *round_.leaver +
                      " was asked to stop and has left after a checkpoint; waiting " +
                      format_duration(spec_.grace) + " for the others.";
      send_all(announce);
    } else if (Clock::now() >= leave_deadline) {
      round_.follow_too_late = true;
    }
  }
}

bool Coordinator::is_over() const {
  return round_.failed || round_.follow_too_late || round_.user_signal || round_.hang ||
         round_.lost || round_.start_failure || round_.ended == round_.places.size();
}

asio::awaitable<void> Coordinator::stop() {
  store_.note_joined(round_.places);
  round_.frozen = watchdog_->frozen();
  round_.is_stopping = true;
  console_.live(live_text_ = "");
  const StopRound order = make_stop();
  send_all(order);
  // Our own node always reports; another one may be stuck in a way that its beats do not show.
  const Deadline deadline = Clock::now() + order.grace + kReportWait;
  while (!has_all(&Node::has_ended)) {
    const Deadline until = Clock::now() < deadline ? deadline : kNoDeadline;
    std::optional<Event> event = co_await inbox_.next(until);
    if (event) note(*event);
    if (event || Clock::now() < deadline) continue;
    std::vector<int> stuck;
    for (const auto& [id, node] : nodes_) {
      if (node->link && node->rank >= 0 && !node->has_ended) stuck.push_back(id);
    }
    for (const int id : stuck)
      lose(id, "did not end its workers in time");
  }
}

StopRound Coordinator::make_stop() const {
  StopRound order;
  order.round = round_.number;
  order.signal = SIGTERM;
  order.grace = spec_.grace;
  if (round_.user_signal) {
    // A scheduler sends SIGTERM some time after it has announced it by SIGUSR1.
    if (*round_.user_signal != SIGUSR1) order.signal = *round_.user_signal;
    order.reason = StopReason::preempt;
    order.line = signal_name(*round_.user_signal) + round_.signalled_at + ": stopping";
  } else if (round_.start_failure) {
    order.signal = SIGKILL;  // none of them has begun to work together
    order.line = round_.start_failure->text + "; stopping";
  } else if (round_.hang) {
    order.wants_stacks = true;
    order.line = round_.hang_line + "; stopping";
  } else if (round_.failed) {
    order.line = *round_.failed + "; stopping the other";
  } else if (round_.lost) {
    order.line = name_node(round_.lost->node_rank, round_.lost->host) +
                 " is lost: " + round_.lost->how + "; stopping";
  } else if (round_.follow_too_late) {
    const std::size_t alive = round_.places.size() - round_.ended;
    order.line = std::to_string(alive) + (alive == 1 ? " worker" : " workers") +
                 " did not follow within " + format_duration(spec_.grace) + "; stopping";
  }
  return order;
}

void Coordinator::note(Event& event) {
  if (auto* const came = std::get_if<NewsCame>(&event)) note_news(came->id, came->news);
  if (auto* const came = std::get_if<NodeCame>(&event)) admit(*came);
  if (const auto* const gone = std::get_if<NodeGone>(&event)) lose(gone->id, gone->how);
}

/// News of a round that is over, or of a node that was given up, mean nothing any more.
void Coordinator::note_news(int id, const News& news) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  Node& node = *found->second;
  if (const auto* const asked = std::get_if<StopAsked>(&news)) note_stop(node, *asked);
  const auto is_current = [&](const auto& value) {
    return value.round == round_.number && node.rank >= 0;
  };
  if (const auto* const beat = std::get_if<NewsBeat>(&news)) {
    node.clock.note(beat->echo_ns, steady_ns(), beat->echo_age_ns, beat->sent_ns);
    if (is_current(*beat)) node.samples = beat->samples;
    if (id == 0 && !round_.is_stopping && round_.number >= 0) look();
  }
  const auto* const started = std::get_if<Started>(&news);
  if (started != nullptr && is_current(*started)) note_start(node, *started);
  const auto* const exited = std::get_if<Exited>(&news);
  if (exited != nullptr && is_current(*exited)) note_exit(*exited);
  const auto* const failed = std::get_if<NodeFailed>(&news);
  if (failed != nullptr && is_current(*failed) && !round_.start_failure) {
    round_.start_failure = *failed;
    if (node.link) {
      round_.start_failure->text = name_node(node.rank, node.host) + ": " + failed->text;
    }
  }
  const auto* const ended = std::get_if<GroupEnded>(&news);
  if (ended != nullptr && is_current(*ended)) {
    node.end = *ended;
    node.has_ended = true;
  }
}

void Coordinator::note_start(Node& node, const Started& started) {
  node.has_started = true;
  node.begin_ns = started.begin_ns;
  node.started_at = Clock::now();
  for (std::size_t i = 0; i < std::min(started.pids.size(), node.workers); ++i)
    round_.places[node.first_worker + i].pid = static_cast<pid_t>(started.pids[i]);
  if (round_.is_released || !has_all(&Node::has_started)) return;
  // Every worker of every node runs. Before, the store answers none: nobody trains in vain.
  round_.is_released = true;
  if (door_) store_.endpoint()->release();
}

void Coordinator::note_exit(const Exited& exited) {
  // An ending remembers whether its worker had been in the store.
  store_.note_joined(round_.places);
  const auto rank = static_cast<std::size_t>(exited.ending.rank);
  if (rank >= round_.places.size() || round_.places[rank].ended) return;
  round_.places[rank].ended = true;
  ++round_.ended;
  const std::string who = name_rank(exited.ending.rank);
  if (has_left(exited.ending) && !round_.leaver) round_.leaver = who;
  if (has_failed(exited.ending) && !round_.failed) {
    round_.failed = who + " has failed: " + to_text(exited.ending.status);
  }
}

void Coordinator::note_stop(const Node& node, const StopAsked& asked) {
  const Clock::time_point now = Clock::now();
  press_ = asked.signal;
  if (!round_.is_stopping) {
    round_.user_signal = asked.signal;
    if (node.link) round_.signalled_at = " at " + name_node(node.rank, node.host);
  }
  const bool is_press = asked.signal == SIGINT || asked.signal == SIGTERM;
  if (!is_press) return;
  if (!first_press_) {
    first_press_ = now;
    return;
  }
  if (is_killing_ || !round_.is_stopping || now - *first_press_ <= WorkerGroup::kSamePress) return;
  is_killing_ = true;
  StopRound kill;
  kill.round = round_.number;
  kill.signal = SIGKILL;
  send_all(kill);
}

/// A node is gone: from the job, and with it the round in which it had a place.
void Coordinator::lose(int id, const std::string& how) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  const std::unique_ptr<Node> node = std::move(found->second);
  nodes_.erase(found);
  const std::string host = roster_.find(id).hello.host;
  const std::string name = name_node(roster_.find(id).rank, host);
  const Clock::time_point heard = node->link->last_heard();
  roster_.remove(id);
  node->link->close();
  if (node->rank < 0 || round_.number < 0) {
    console_.warning(name + " has left before its first round: " + how);
    return;
  }
  fence_ = std::max(fence_, heard + kFence);
  if (node->has_ended) return;  // the round's news of it are complete
  if (round_.is_stopping) console_.error(name + " is lost: " + how);
  if (!round_.lost) {
    round_.lost = NodeLost{node->rank, host, how, {}};
    round_.lost_at = heard - round_.begin;
  }
  // What its workers did is not known; nobody waits for them.
  for (std::size_t i = 0; i < node->workers; ++i)
    round_.places[node->first_worker + i].ended = true;
}

/// Somebody knocks.
void Coordinator::admit(NodeCame& came) {
  if (const std::optional<Refusal> refusal = roster_.why_not(came.hello)) {
    console_.warning("refused: " + refusal->text);
    came.link->send(encode(*refusal));
    asio::co_spawn(io_, dismiss(came.link), rethrow);
    return;
  }
  if (came.hello.asks) {
    came.link->send(encode(job_.welcome));
    asio::co_spawn(io_, dismiss(came.link), rethrow);
    return;
  }
  const int id = roster_.add(came.hello);
  auto node = std::make_unique<Node>();
  node->id = id;
  node->link = came.link;
  node->host = came.hello.host;
  came.link->send(encode(job_.welcome));
  came.link->send(encode(Order(OrderBeat{steady_ns(), ""})));
  came.link->start(
      [this, id](std::string_view frame) {
        std::optional<News> news = decode_news(frame);
        if (news) inbox_.push(NewsCame{id, std::move(*news)});
        return news.has_value();
      },
      [this, id](const std::string& how) {
        inbox_.push(NodeGone{id, how});
      });
  store_.endpoint()->allow(came.link->peer_address());
  // What the others are to call us: the first one has proved that this works.
  if (nodes_.size() == 1) own_address_ = came.link->own_address();
  nodes_.emplace(id, std::move(node));
  const bool waits = round_.number >= 0;
  console_.info(name_node(came.hello.node_rank, came.hello.host) + " has joined from " +
                came.link->peer_address() + ": " + std::to_string(roster_.present()) + " of " +
                format_nodes(spec_.min_nodes, spec_.max_nodes) + " nodes" +
                (waits ? "; it enters at the next round" : ""));
}

/// Tells it why, and closes the link.
asio::awaitable<void> Coordinator::dismiss(std::shared_ptr<ControlLink> link) {
  co_await link->flush(Clock::now() + kFlushWait);
  link->close();
}

/// Once a second: says that we live, and who else seems not to.
asio::awaitable<void> Coordinator::beat() {
  while (!is_closed_) {
    const Clock::time_point now = Clock::now();
    OrderBeat beat;
    beat.sent_ns = steady_ns();
    beat.line = live_text_;
    const std::string text = encode(Order(beat));
    for (const auto& [id, node] : nodes_) {
      if (!node->link) continue;
      const Clock::time_point heard = node->link->last_heard();
      if (now - heard > kLease) {
        inbox_.push(NodeGone{id, "silent for " + one_decimal(now - heard)});
        continue;
      }
      node->link->send(text);
      if (now - heard > kQuiet && !node->quiet_since) node->quiet_since = heard;
      if (now - heard > kQuiet || !node->quiet_since) continue;
      console_.warning(name_node(roster_.find(id).rank, node->host) + " was silent for " +
                       one_decimal(heard - *node->quiet_since));
      node->quiet_since.reset();
    }
    beat_timer_.expires_after(kBeat);
    co_await beat_timer_.async_wait(kResult);
  }
}

/// At all workers of all nodes, as their newest beats show them.
void Coordinator::look() {
  store_.note_joined(round_.places);
  store_.call_roll(round_.places);
  std::vector<WorkerSample> samples(round_.places.size());
  for (std::size_t rank = 0; rank < samples.size(); ++rank)
    samples[rank].rank = static_cast<int>(rank);
  for (const auto& [id, node] : nodes_) {
    for (const WorkerSample& sample : node->samples) {
      const auto rank = static_cast<std::size_t>(sample.rank);
      if (rank >= samples.size()) continue;
      samples[rank] = sample;
      samples[rank].joined_store = round_.places[rank].joined;
      samples[rank].ended_at += begin_of(*node);
    }
  }
  store_.note_waits(round_.places, samples, round_.begin);
  const nanoseconds now = Clock::now() - round_.begin;
  if (door_) console_.live(live_text_ = live_.describe(now, samples));
  for (const Finding& finding : watchdog_->look(now, samples)) {
    const std::string text = name_rank(finding.rank) + " " + finding.text;
    if (finding.ends_job) {
      round_.hang = finding;
      round_.hang_line = text;
    } else {
      console_.warning(text + ". Others may wait for it.");
    }
  }
}

/// When the node's times begin, since the round's begin.
nanoseconds Coordinator::begin_of(const Node& node) const {
  const std::int64_t ours = round_.begin.time_since_epoch().count();
  if (!node.link) return nanoseconds(node.begin_ns - ours);
  if (const auto begin = node.clock.to_ours(node.begin_ns)) return nanoseconds(*begin - ours);
  return node.started_at - round_.begin;  // no beat was answered yet
}

std::string Coordinator::name_rank(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  const RankPlace& place = round_.places.at(index);
  const std::string pid = "pid " + std::to_string(place.pid);
  for (const auto& [id, node] : nodes_) {
    const bool is_its = node->link && node->rank >= 0 && index >= node->first_worker &&
                        index < node->first_worker + node->workers;
    if (is_its) {
      return "rank " + std::to_string(rank) + " (" + "node " + std::to_string(node->rank) + ", " +
             node->host + ", " + pid + ")";
    }
  }
  return "rank " + std::to_string(rank) + " (" + pid + ")";
}

RoundResult Coordinator::conclude() {
  std::vector<WorkerReport> reports;
  std::vector<std::string> leftovers;
  for (const auto& [id, node] : nodes_) {
    if (node->rank < 0) continue;
    for (WorkerReport& report : node->end.workers) {
      const auto rank = static_cast<std::size_t>(report.ending.rank);
      report.node_rank = node->rank;
      report.host = node->host;
      report.ending.at += begin_of(*node);
      report.ending.joined_store = rank < round_.places.size() && round_.places[rank].joined;
      report.ending.was_frozen =
          std::find(round_.frozen.begin(), round_.frozen.end(), report.ending.rank) !=
          round_.frozen.end();
      reports.push_back(std::move(report));
    }
    for (const std::string& leftover : node->end.leftovers)
      leftovers.push_back(node->link ? name_node(node->rank, node->host) + ": " + leftover
                                     : leftover);
  }
  std::sort(reports.begin(), reports.end(), [](const WorkerReport& a, const WorkerReport& b) {
    return a.ending.rank < b.ending.rank;
  });
  std::vector<Ending> endings;
  RoundResult round;
  for (const WorkerReport& report : reports) {
    endings.push_back(report.ending);
    round.has_page = round.has_page || report.ending.opened_page;
    round.checkpoint_step = std::max(round.checkpoint_step, report.checkpoint_step);
  }
  StopCause cause;
  cause.user_signal = round_.user_signal;
  if (round_.hang) cause.hung_rank = round_.hang->rank;
  cause.lost_node = round_.lost;
  cause.lost_at = round_.lost_at;
  round.outcome = judge(endings, cause);
  round.exit_code = exit_code_of(round.outcome, endings);
  round.lived = Clock::now() - round_.begin;
  round.is_clean = leftovers.empty();
  round.has_nodes = roster_.is_enough() || spec_.replace_timeout.has_value();
  verdict_.outcome = round.outcome;
  verdict_.exit_code = round.exit_code;
  verdict_.workers = std::move(reports);
  verdict_.leftovers = std::move(leftovers);
  verdict_.hang = round_.hang ? round_.hang->text : "";
  if (const auto first = first_failure(endings)) verdict_.teardown = round.lived - *first;
  if (!round.is_clean && verdict_.exit_code == exit_code::kOk) {
    verdict_.exit_code = exit_code::kInternal;
  }
  if (round_.start_failure) {
    // It is the launcher's own failure; that of an earlier round is a line of its own.
    verdict_.failure = round_.start_failure->text;
    verdict_.outcome = round.outcome = Succeeded();
    verdict_.exit_code = round.exit_code = round_.start_failure->code;
    verdict_.workers.clear();
  }
  return round;
}

void Coordinator::say_restart(const RoundResult& round, const RestartDecision& decision) {
  if (decision.restart) {
    auto& earlier = verdict_.earlier_rounds;
    if (earlier.size() == Verdict::kRoundLines) earlier.erase(earlier.begin());
    earlier.push_back(summarize_round(verdict_, round_.number, round.lived));
    const int left = spec_.max_restarts - round_.number - 1;
    const std::string when =
        decision.pause.count() == 0 ? "now" : "in " + format_duration(decision.pause);
    if (press_) return;  // there is no next one
    console_.error(earlier.back() + "; round " + std::to_string(round_.number + 1) + " starts " +
                   when + ", " + std::to_string(left) +
                   (left == 1 ? " restart is left." : " restarts are left."));
    return;
  }
  const bool is_bad = std::holds_alternative<Failed>(round.outcome) ||
                      std::holds_alternative<NodeLost>(round.outcome);
  if (!is_bad) return;
  if (decision.exit_code != round.exit_code) verdict_.policy = decision.reason;
  verdict_.exit_code = decision.exit_code;
  if (!decision.reason.empty()) console_.info("no further round: " + decision.reason + ".");
}

/// Suspends: for the decision's pause, or until the user stops the job.
asio::awaitable<void> Coordinator::pause(RestartDecision decision) {
  const Deadline deadline = Clock::now() + decision.pause;
  while (!press_) {
    std::optional<Event> event = co_await inbox_.next(deadline);
    if (!event) break;
    note(*event);
  }
}

asio::awaitable<void> Coordinator::end() {
  is_closed_ = true;
  beat_timer_.cancel();
  const JobEnd end = make_end();
  const Order order(end);
  if (door_) {
    const std::string text = encode(order);
    const Deadline deadline = Clock::now() + kFlushWait;
    for (const auto& [id, node] : nodes_) {
      if (node->link) node->link->send(text);
    }
    for (const auto& [id, node] : nodes_) {
      if (!node->link) continue;
      co_await node->link->flush(deadline);
      node->link->close();
    }
    door_->close();
  }
  store_.close();
  job_.tell_own_node(order);
}

JobEnd Coordinator::make_end() {
  verdict_.duration = Clock::now() - begin_;
  return describe_end(verdict_, spec_, job_.own.host);
}

JobEnd Coordinator::abandon(const std::string& failure, int exit_code) {
  verdict_.failure = failure;
  verdict_.outcome = Succeeded();  // that of an earlier round is a line of its own
  verdict_.workers.clear();
  verdict_.exit_code = exit_code;
  return make_end();
}

void Coordinator::send(const Node& node, const Order& order) {
  if (node.link) {
    node.link->send(encode(order));
  } else {
    job_.tell_own_node(order);
  }
}

void Coordinator::send_all(const Order& order) {
  for (const auto& [id, node] : nodes_) {
    if (node->rank >= 0) send(*node, order);
  }
}

bool Coordinator::has_all(bool Node::*reached) const {
  return std::all_of(nodes_.begin(), nodes_.end(), [reached](const auto& entry) {
    return entry.second->rank < 0 || (*entry.second).*reached;
  });
}

}  // namespace ddp::launcher
