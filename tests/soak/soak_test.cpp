// Round after round on 4 nodes with 2 workers each, and in each a fault that a seed chooses:
// workers and what they have started, agents, cables. After every one of them the invariants are
// looked at:
//   I1  nothing of a job that has ended lives on any node
//   I2  all agents that could know it tell the same verdict, by the same code
//   I3  the workers of at most one round live at any time
//   I4  the ranks are 0..W-1, each once, in every round
//   I7  every line that a worker wrote before it died is in its log
//   I8  agents take no more descriptors and memory from round to round
//   I9  a fault is over within its bound: the next round trains, or the job has ended
// DDP_SOAK_ROUNDS sets how many rounds (a few, otherwise), DDP_SOAK_SEED repeats one.
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "common/node/environment.h"
#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kNodes = 4;
constexpr int kWorkers = 2;
constexpr int kLines = 20;
constexpr int kSlack = kInstrumented ? 6 : 1;
constexpr milliseconds kQuick = 5s * kSlack;  // from a dead worker to the next round
constexpr milliseconds kSilent =
    15s * kSlack;  // from a silent node to the next round, or to the end
constexpr std::size_t kMoreDescriptors = 8;
constexpr std::size_t kMoreKib = 6144;

unsigned setting(const char* name, unsigned otherwise) {
  const auto text = find_variable(read_environment(), name);
  return text ? static_cast<unsigned>(std::stoul(*text)) : otherwise;
}

/// A living process of a worker, or of what a worker has started.
struct Seen {
  pid_t pid = 0;
  bool leads = false;  // the worker itself
  int round = -1;
  int rank = -1;
  int node = -1;
  int world = 0;
};

class Soak : public ClusterTest {
 protected:
  void start_job() {
    ++jobs_;
    output_ = scratch() / ("job" + std::to_string(jobs_));
    agents_.clear();
    usage_.clear();
    for (int node = 0; node < kNodes; ++node)
      agents_.push_back(start_agent(node));
    round_ = -1;
  }

  std::unique_ptr<Running> start_agent(int node) {
    return launch_on(node,
                     "spawn [ hold ] lose [ ignore TERM hold ] lines " + std::to_string(kLines) +
                         " text wait USR1 exit 3",
                     {"--nnodes",
                      "2:" + std::to_string(kNodes),
                      "--last-call",
                      "1s",
                      "--max-restarts",
                      "1000000",
                      "--died-within",
                      "0s",
                      "--output",
                      output_.string()});
  }

  /// Takes what they print, and looks at I3.
  std::vector<Seen> look() {
    for (const auto& agent : agents_)
      agent->read_for(1ms);
    std::vector<Seen> found;
    for (const std::string& process : alive()) {
      const pid_t pid = std::atoi(process.c_str());
      if (const Seen seen = read(pid); seen.round >= 0) found.push_back(seen);
    }
    const auto older = [](const Seen& a, const Seen& b) { return a.round < b.round; };
    if (found.empty()) return found;
    const int newest = std::max_element(found.begin(), found.end(), older)->round;
    for (const Seen& seen : found) {
      // It lived before those of the newest round were seen, and lives now.
      const std::string state = state_of(seen.pid);
      const bool lives = !state.empty() && state != "Z" && state != "X";
      EXPECT_FALSE(seen.round < newest && lives && read(seen.pid).round == seen.round)
          << "I3: pid " << seen.pid << " of round " << seen.round << " (rank " << seen.rank
          << ", node " << seen.node << ") lives beside round " << newest;
    }
    return found;
  }

  static Seen read(pid_t pid) {
    const std::string text = '\0' + read_all("/proc/" + std::to_string(pid) + "/environ");
    const auto number = [&](const std::string& name) {
      const std::size_t at = text.find('\0' + name + "=");
      return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + name.size() + 2);
    };
    Seen seen;
    seen.pid = pid;
    seen.leads = ::getsid(pid) == pid;
    seen.round = number("DDP_ROUND");
    seen.rank = number("RANK");
    seen.node = number("GROUP_RANK");
    seen.world = number("WORLD_SIZE");
    return seen;
  }

  static pid_t parent_of(pid_t pid) {
    const std::string text = read_all("/proc/" + std::to_string(pid) + "/stat");
    const std::size_t close = text.rfind(')');
    return close == std::string::npos ? 0 : std::atoi(text.c_str() + close + 4);
  }

  /// It has written all its lines, and waits (rt_sigtimedwait).
  static bool is_waiting(pid_t pid) {
    return read_all("/proc/" + std::to_string(pid) + "/syscall").rfind("128 ", 0) == 0;
  }

  /// Until all ranks of a later round than the last one are there and wait. I4.
  bool trains_within(milliseconds limit) {
    const auto end = steady_clock::now() + limit;
    std::string why = "nobody lives";
    while (steady_clock::now() < end) {
      workers_.clear();
      bool waiting = true;
      for (const Seen& seen : look()) {
        if (!seen.leads || seen.round <= round_) continue;
        // A daemon on its way to be one leads a session too, for a moment.
        if (!is_waiting(seen.pid)) {
          waiting = false;
          continue;
        }
        EXPECT_TRUE(workers_.emplace(seen.rank, seen).second) << "I4: rank twice: " << seen.rank;
      }
      if (workers_.empty()) continue;
      const int world = workers_.begin()->second.world;
      why = std::to_string(workers_.size()) + " of " + std::to_string(world) + " ranks live";
      if (static_cast<int>(workers_.size()) != world || !waiting) continue;
      EXPECT_EQ(workers_.begin()->first, 0) << "I4";
      EXPECT_EQ(workers_.rbegin()->first, world - 1) << "I4";
      round_ = workers_.begin()->second.round;
      look_at_agents();
      return true;
    }
    ADD_FAILURE() << "I9: no round after " << round_ << " within " << limit.count()
                  << " ms: " << why;
    for (int node = 0; node < kNodes; ++node)
      std::cout << "--- node " << node << ", last lines\n" << tail(agents_[index(node)]->err());
    return false;
  }

  static std::string tail(const std::string& text) {
    return text.size() < 3000 ? text : text.substr(text.size() - 3000);
  }
  static std::size_t index(int node) { return static_cast<std::size_t>(node); }

  /// I8: once three rounds have been, no agent grows.
  void look_at_agents() {
    for (const auto& agent : agents_) {
      Usage& usage = usage_[agent->pid()];
      const std::size_t descriptors = count_descriptors(agent->pid());
      const std::size_t kib = status_number(agent->pid(), "RssAnon");
      // The most: a round without a node, which has been lost, needs fewer descriptors.
      if (++usage.rounds <= 3) {
        usage.descriptors = std::max(usage.descriptors, descriptors);
        usage.kib = std::max(usage.kib, kib);
      }
      EXPECT_LE(descriptors, usage.descriptors + kMoreDescriptors) << "I8";
      // A sanitizer keeps what was freed for a while.
      if (!kInstrumented) {
        EXPECT_LE(kib, usage.kib + kMoreKib) << "I8: after " << usage.rounds << " rounds";
      }
      longest_ = std::max(longest_, usage.rounds);
      if (usage.rounds == longest_) {
        longest_growth_ = "descriptors " + std::to_string(usage.descriptors) + " -> " +
                          std::to_string(descriptors) + ", own memory " +
                          std::to_string(usage.kib) + " -> " + std::to_string(kib) + " KiB";
      }
    }
  }

  /// I7, of a round that has ended.
  void expect_whole_logs(const std::map<int, Seen>& workers) {
    for (const auto& [rank, seen] : workers) {
      const std::string name =
          "logs/round-" + std::to_string(seen.round) + "/rank-" + std::to_string(rank) + ".out";
      std::string text;
      for (const auto& entry : std::filesystem::directory_iterator(output_))
        if (const std::string found = read_all(entry.path() / name); !found.empty()) text = found;
      EXPECT_EQ(count(text, "text "), static_cast<std::size_t>(kLines)) << "I7: " << name;
    }
  }

  /// I1, I2 and I9 of an end; `lost` are nodes whose agents could not hear the verdict.
  void expect_end(const std::set<int>& lost, milliseconds limit) {
    const auto begin = steady_clock::now();
    const std::vector<AgentEnd> ends = ends_of(agents_, begin, limit);
    int code = -1;
    std::string report;
    for (int node = 0; node < kNodes; ++node) {
      const AgentEnd& end = ends[index(node)];
      EXPECT_NE(end.code, -1000) << "I9: node " << node << " has not ended within " << limit.count()
                                 << " ms";
      if (lost.contains(node)) {
        EXPECT_TRUE(end.code == 201 || end.code == -SIGKILL) << end.code << ", node " << node;
        continue;
      }
      if (code == -1) code = end.code;
      if (report.empty()) report = report_of(*agents_[index(node)]);
      EXPECT_EQ(end.code, code) << "I2: node " << node;
      // Without node 0 each says itself for how long it has heard nothing.
      if (lost.contains(0)) continue;
      EXPECT_EQ(report_of(*agents_[index(node)]), report) << "I2: node " << node;
    }
    EXPECT_TRUE(nothing_lives_within(2s)) << "I1: " << testing::PrintToString(alive());
    std::cout << "  the job ended by " << code << std::endl;
  }

  struct Usage {
    int rounds = 0;
    std::size_t descriptors = 0;
    std::size_t kib = 0;
  };

  Agents agents_;
  int jobs_ = 0;
  int round_ = -1;
  std::map<int, Seen> workers_;  // of this round, by rank
  std::map<pid_t, Usage> usage_;
  int longest_ = 0;
  std::string longest_growth_;
  std::filesystem::path output_;
};

TEST_F(Soak, InvariantsHoldWhateverFails) {
  if (!make_nodes(kNodes)) GTEST_SKIP() << why_not();
  const unsigned seed = setting("DDP_SOAK_SEED", std::random_device()());
  const unsigned rounds = setting("DDP_SOAK_ROUNDS", 12);
  std::cout << "seed " << seed << ", " << rounds << " rounds" << std::endl;
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  enum Fault {
    kKillWorker,
    kFailWorker,
    kKillGrandchild,
    kStopOneKillOther,
    kTwoAtOnce,
    kKillAgain,
    kKillAgentToo,
    kKillAgent,
    kStopAgent,
    kPauseAgent,
    kUnplug,
    kUnplugNode0,
    kFlap,
    kKillNode0,
    kStopJob,
    kFaults
  };
  const char* const names[] = {"a worker is killed",
                               "a worker fails",
                               "a grandchild is killed, then its worker",
                               "a worker is stopped, another one killed",
                               "two workers are killed at once",
                               "a worker is killed, and another one at any moment of the restart",
                               "a worker is killed, and an agent at any moment of the restart",
                               "an agent is killed",
                               "an agent is stopped for 8 s",
                               "an agent is stopped for 3 s",
                               "a node is unplugged for 8 s",
                               "node 0 is unplugged",
                               "a cable flaps for 2 s",
                               "node 0's agent is killed",
                               "the job is stopped by a signal"};
  std::discrete_distribution<int> choose({25, 15, 8, 8, 8, 12, 3, 3, 2, 2, 2, 1, 2, 1, 1});
  std::map<int, int> done;
  std::map<int, milliseconds> worst;
  const auto note = [&](int fault, steady_clock::time_point at) {
    const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - at);
    worst[fault] = std::max(worst[fault], took);
    ++done[fault];
  };
  const auto begin = steady_clock::now();

  start_job();
  ASSERT_TRUE(trains_within(kSilent));
  for (unsigned i = 0; i < rounds && !HasFailure(); ++i) {
    const int fault = choose(random);
    const std::map<int, Seen> before = workers_;
    const auto any = [&] {
      return std::next(before.begin(), static_cast<long>(below(before.size())))->second;
    };
    const Seen one = any();
    const int node = 1 + static_cast<int>(below(kNodes - 1));
    Running& agent = *agents_[index(node)];
    std::cout << "round " << round_ << " of job " << jobs_ << ": " << names[fault] << " (rank "
              << one.rank << ", node " << node << ")" << std::endl;
    const auto at = steady_clock::now();
    bool ends = false;
    // A node that waits for the next round is missed by nobody.
    const bool has_rank = std::any_of(before.begin(), before.end(), [&](const auto& entry) {
      return parent_of(entry.second.pid) == agent.pid();
    });
    bool goes_on = !has_rank && (fault == kKillAgent || fault == kStopAgent || fault == kUnplug);
    milliseconds limit = kQuick;
    std::set<int> lost;
    switch (fault) {
      case kKillWorker:
        send_signal(one.pid, SIGKILL);
        break;
      case kFailWorker:
        send_signal(one.pid, SIGUSR1);
        break;
      case kKillGrandchild:
        for (const Seen& seen : look())
          if (seen.rank == one.rank && !seen.leads) send_signal(seen.pid, SIGKILL);
        send_signal(one.pid, SIGKILL);
        break;
      case kStopOneKillOther:
        send_signal(any().pid, SIGSTOP);
        send_signal(one.pid, SIGKILL);
        break;
      case kTwoAtOnce:
        send_signal(any().pid, SIGKILL);
        send_signal(one.pid, SIGKILL);
        break;
      case kKillAgain:
        send_signal(one.pid, SIGKILL);
        agents_[0]->read_for(milliseconds(below(120)));
        for (const Seen& seen : look()) {
          if (seen.leads && seen.rank == one.rank) send_signal(seen.pid, SIGKILL);
        }
        break;
      case kKillAgentToo:
        send_signal(one.pid, SIGKILL);
        agents_[0]->read_for(milliseconds(below(120)));
        agent.signal(SIGKILL);
        EXPECT_EQ(agent.wait(1s), -SIGKILL);
        limit = kSilent;
        break;
      case kKillAgent:
        agent.signal(SIGKILL);
        EXPECT_EQ(agent.wait(1s), -SIGKILL);
        limit = kSilent;
        break;
      case kStopAgent:
        agent.signal(SIGSTOP);
        agents_[0]->read_for(8s);
        agent.signal(SIGCONT);
        EXPECT_EQ(agent.wait(2s), 201);
        limit = kSilent;
        break;
      case kUnplug:
        cluster().unplug(node);
        EXPECT_EQ(agent.wait(10s), 201);
        cluster().plug_in(node);
        limit = kSilent;
        break;
      case kUnplugNode0:
        cluster().unplug(0);
        lost = {0};
        ends = true;
        break;
      case kPauseAgent:
        agent.signal(SIGSTOP);
        agents_[0]->read_for(3s);
        agent.signal(SIGCONT);
        goes_on = true;
        break;
      case kFlap:
        cluster().unplug(node);
        agents_[0]->read_for(2s);
        cluster().plug_in(node);
        goes_on = true;
        break;
      case kKillNode0:
        agents_[0]->signal(SIGKILL);
        lost = {0};
        ends = true;
        break;
      default:
        agents_[index(static_cast<int>(below(kNodes)))]->signal(SIGTERM);
        ends = true;
    }
    if (ends) {
      expect_end(lost, kSilent);
      cluster().plug_in(0);
      start_job();
      EXPECT_TRUE(trains_within(kSilent));
      note(fault, at);
      continue;
    }
    // Anyone who is gone comes back, and is in the next round or in the one after it.
    for (int gone = 1; gone < kNodes; ++gone) {
      const std::string state = state_of(agents_[index(gone)]->pid());
      if (state.empty() || state == "Z") agents_[index(gone)] = start_agent(gone);
    }
    if (goes_on) {
      agents_[0]->read_for(1500ms);
      std::size_t living = 0;
      for (const Seen& seen : look())
        living += seen.leads && seen.round == round_ && before.contains(seen.rank) ? 1 : 0;
      EXPECT_EQ(living, before.size()) << "nothing was to happen";
    } else {
      if (trains_within(limit) && limit == kQuick) expect_whole_logs(before);
    }
    note(fault, at);
  }
  for (const auto& [fault, times] : done)
    std::cout << times << " x " << names[fault] << ", the longest took " << worst[fault].count()
              << " ms\n";
  std::cout << "jobs " << jobs_ << ", most rounds of one agent " << longest_ << " ("
            << longest_growth_ << "), seed " << seed << ", "
            << std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - begin).count()
            << " s" << std::endl;
  if (HasFailure()) std::cout << "again: DDP_SOAK_SEED=" << seed << std::endl;
  for (const auto& agent : agents_)
    agent->signal(SIGTERM);
  expect_end({}, kSilent);
}

}  // namespace
}  // namespace ddp::test
