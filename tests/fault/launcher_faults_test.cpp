// The launcher is killed, stopped, interrupted, or loses its console. Rows L of CASES.md.
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;

class LauncherFaults : public ProcessTest {};

TEST_F(LauncherFaults, L1_AllProcessesEndWhenTheLauncherIsKilled) {
  const auto job = launch_fakes(2,
                                "ignore TERM spawn [ ignore TERM hold ] lose [ ignore TERM hold ] "
                                "lose [ lose [ print lost hold ] ] print ready hold");
  ASSERT_TRUE(job->sees("[0:0] ready") && job->sees("[0:1] ready") && job->sees("lost"));
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  EXPECT_TRUE(nothing_lives_within(2s)) << testing::PrintToString(alive());
}

TEST_F(LauncherFaults, L1_AllProcessesEndWhenALauncherOfALauncherIsKilled) {
  const auto job = launch({"--no-python",
                           DDP_LAUNCH,
                           "--no-python",
                           DDP_FAKE_WORKER,
                           "spawn",
                           "[",
                           "ignore",
                           "TERM",
                           "hold",
                           "]",
                           "lose",
                           "[",
                           "print",
                           "lost",
                           "hold",
                           "]",
                           "print",
                           "ready",
                           "hold"});
  ASSERT_TRUE(job->sees("ready") && job->sees("lost"));
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  EXPECT_TRUE(nothing_lives_within(2s)) << testing::PrintToString(alive());
}

TEST_F(LauncherFaults, L1_AKilledGuardIsReplacedAndTheNextOneKnowsWhatItKnew) {
  const auto job = launch_fakes(1, "spawn [ hold ] lose [ print lost hold ] print ready hold");
  ASSERT_TRUE(job->sees("ready") && job->sees("lost"));
  send_signal(find_guard(), SIGKILL);
  ASSERT_TRUE(job->sees("the guard was killed; another one, pid "));
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  EXPECT_TRUE(nothing_lives_within(2s)) << testing::PrintToString(alive());
}

TEST_F(LauncherFaults, AStoppedGuardIsNotLeftBehind) {
  const auto job = launch_fakes(1, "pid wait USR1");
  const pid_t worker = job->number_after("[0:0] pid ");
  const pid_t guard = find_guard();
  send_signal(guard, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return state_of(guard) == "T"; }, kTestTimeout));
  send_signal(worker, SIGUSR1);
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(nothing_lives_within(2s)) << testing::PrintToString(alive());
}

TEST_F(LauncherFaults, L1_AllProcessesEndWhenALauncherIsKilledDuringItsStart) {
  for (int i = 0; i < 20; ++i) {
    const auto job = launch_fakes(8, "hold");
    ASSERT_TRUE(eventually([&] { return alive().size() > 2 + static_cast<std::size_t>(i) / 4; },
                           kTestTimeout));
    job->signal(SIGKILL);
    EXPECT_EQ(job->wait(), -SIGKILL);
    EXPECT_TRUE(nothing_lives_within(2s)) << testing::PrintToString(alive());
  }
}

TEST_F(LauncherFaults, L1_AKilledLauncherLeavesNoScratchDirectory) {
  const auto job =
      start(Command{.arguments = {DDP_LAUNCH, DDP_FAKE_WORKER, "print", "ready", "hold"},
                    .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
  ASSERT_TRUE(job->sees("ready"));
  ASSERT_FALSE(std::filesystem::is_empty(scratch() / "ddp"));
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  EXPECT_TRUE(
      eventually([&] { return std::filesystem::is_empty(scratch() / "ddp"); }, kTestTimeout));
  EXPECT_TRUE(nothing_lives_within(2s));
}

TEST_F(LauncherFaults, L1_ErrorFilesStayWhenTheLauncherIsKilled) {
  const auto job = start(
      Command{.arguments = {DDP_LAUNCH, DDP_FAKE_WORKER, "message", "x", "print", "ready", "hold"},
              .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
  ASSERT_TRUE(job->sees("ready"));
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  EXPECT_TRUE(nothing_lives_within(2s));
  EXPECT_FALSE(std::filesystem::is_empty(scratch() / "ddp"));
}

TEST_F(LauncherFaults, L1_FilesOfKilledLaunchersAreRemovedButForTheNewest) {
  namespace fs = std::filesystem;
  const fs::path place = scratch() / "ddp";
  const auto job = start(
      Command{.arguments = {DDP_LAUNCH, DDP_FAKE_WORKER, "message", "x", "print", "ready", "hold"},
              .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
  ASSERT_TRUE(job->sees("ready"));
  const fs::path living = fs::directory_iterator(place)->path();
  fs::last_write_time(living, fs::file_time_type::clock::now() - 1000h);
  const auto left = [&](int number) {
    std::string name = std::to_string(number);
    return place / (std::string(32 - name.size(), 'a') + name);
  };
  for (int i = 0; i < 30; ++i) {
    fs::create_directory(left(i));
    fs::permissions(left(i), fs::perms::owner_all);
    std::ofstream(left(i) / "error.json") << i;
    fs::last_write_time(left(i), fs::file_time_type::clock::now() - (100h - i * 1h));
  }
  fs::create_directory(place / "another");
  const auto next = start(Command{.arguments = {DDP_LAUNCH, DDP_FAKE_WORKER, "print", "on"},
                                  .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
  EXPECT_EQ(next->wait(), 0) << next->err();
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(fs::exists(left(i) / "error.json"), i >= 10) << i;
  EXPECT_TRUE(fs::exists(living)) << "its agent lives, though it is the oldest";
  EXPECT_TRUE(fs::exists(place / "another"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(LauncherFaults, L1_TheGuardBlocksSignalsAndIsSmall) {
  const auto job = launch_fakes(1, "print ready hold");
  ASSERT_TRUE(job->sees("ready"));
  const pid_t guard = find_guard();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM}) {
    send_signal(guard, signal);
    EXPECT_TRUE(blocks_signal(guard, signal)) << signal;
  }
  // Its own memory: the rest of what is resident are pages of files, shared with the launcher.
  const auto private_kib = [&] {
    std::ifstream memory("/proc/" + std::to_string(guard) + "/smaps_rollup");
    int kib = 0;
    for (std::string word; memory >> word;) {
      if (word.starts_with("Private_") && memory >> word) kib += std::atoi(word.c_str());
    }
    return kib;
  };
  EXPECT_GT(private_kib(), 0);
  if (!kInstrumented) {
    EXPECT_LT(private_kib(), 1024);
  }
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(LauncherFaults, L4_AStoppedLauncherOfOneNodeHarmsNobody) {
  const auto job = launch_fakes(1, "print ready wait USR1 print woken exit 0");
  ASSERT_TRUE(job->sees("ready"));
  job->signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return state_of(job->pid()) == "T"; }, kTestTimeout));
  for (const std::string& process : alive()) {
    const bool is_worker = process.find("ddp-launch") == std::string::npos;
    if (is_worker) send_signal(std::atoi(process.c_str()), SIGUSR1);
  }
  job->signal(SIGCONT);
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(job->sees("woken"));
}

TEST_F(LauncherFaults, L5_OneSigintIsPassedOnAsItself) {
  const auto job = launch_fakes(2, "print ready wait INT print interrupted exit 0");
  ASSERT_TRUE(job->sees("[0:0] ready") && job->sees("[0:1] ready"));
  job->signal(SIGINT);
  EXPECT_EQ(job->wait(), 130);
  EXPECT_TRUE(job->sees("[0:0] interrupted") && job->sees("[0:1] interrupted"));
}

TEST_F(LauncherFaults, L5_TheSecondSigintKillsNow) {
  const auto job = launch_fakes(2, "ignore INT print ready hold");
  ASSERT_TRUE(job->sees("[0:0] ready") && job->sees("[0:1] ready"));
  const auto first = std::chrono::steady_clock::now();
  job->signal(SIGINT);
  ASSERT_TRUE(job->sees("stopping 2 workers"));
  eventually([&] { return std::chrono::steady_clock::now() - first > 200ms; }, 1s);
  const auto begin = std::chrono::steady_clock::now();
  job->signal(SIGINT);
  job->signal(SIGINT);  // a third changes nothing
  EXPECT_EQ(job->wait(), 130);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);  // the bound is 0.2 s on an idle machine
}

TEST_F(LauncherFaults, L5_ASignalDeliveredTwiceAtOnceIsOneRequest) {
  const auto job = launch_fakes(1, "ignore INT print ready hold");
  ASSERT_TRUE(job->sees("ready"));
  job->signal(SIGINT);
  job->signal(SIGTERM);  // within 100 ms: a wrapper that passes on what the terminal sent already
  EXPECT_EQ(job->wait(500ms), -1000);  // still in its grace of 2 s
  EXPECT_TRUE(job->wait() >= 128);
}

TEST_F(LauncherFaults, L6_AStoppedJobExitsBySignal) {
  const auto job = launch_fakes(2, "print ready hold");
  ASSERT_TRUE(job->sees("[0:0] ready") && job->sees("[0:1] ready"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_EQ(job->err().find("Root Cause"), std::string::npos);
}

TEST_F(LauncherFaults, L7_HangupStaysIgnoredUnderNohup) {
  const auto job = start(Command{
      .arguments = {DDP_LAUNCH, DDP_FAKE_WORKER, "print", "ready", "wait", "USR1", "exit", "0"},
      .ignored_signals = {SIGHUP}});
  ASSERT_TRUE(job->sees("ready"));
  job->signal(SIGHUP);
  EXPECT_EQ(job->wait(300ms), -1000);
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(LauncherFaults, L7_HangupStopsTheJobOtherwise) {
  const auto job = launch_fakes(1, "print ready hold");
  ASSERT_TRUE(job->sees("ready"));
  job->signal(SIGHUP);
  EXPECT_EQ(job->wait(), 129);
}

TEST_F(LauncherFaults, L7_AClosedStdoutNeverEndsTheJob) {
  const auto job = launch_fakes(2, "print ready lines 20000 text error done exit 0");
  ASSERT_TRUE(job->sees("ready"));
  job->drop_stdout();
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(job->sees("[0:0] done") && job->sees("[0:1] done"));
}

TEST_F(LauncherFaults, L7_NoStdoutAtAllIsFineToo) {
  const auto job = start(Command{
      .arguments =
          {DDP_LAUNCH, "--nproc-per-node", "2", DDP_FAKE_WORKER, "print", "x", "error", "done"},
      .close_stdout = true});
  EXPECT_EQ(job->wait(), 0);
  EXPECT_TRUE(job->sees("[0:1] done"));
}

TEST_F(LauncherFaults, L7_AFullStderrThatNobodyReadsStopsNothing) {
  const auto job = start(Command{.arguments = {DDP_LAUNCH,   "--nproc-per-node=2",
                                               "--grace=2s", DDP_FAKE_WORKER,
                                               "on",         "1",
                                               "[",          "sleep",
                                               "0.2",        "exit",
                                               "3",          "]",
                                               "catch",      "TERM",
                                               "wait",       "TERM",
                                               "print",      "stopped",
                                               "exit",       "0"},
                                 .full_stderr = true});
  EXPECT_TRUE(job->sees("[0:0] stopped"));  // rank 0 was told, though the message could not be
  EXPECT_EQ(job->wait(), 3);
  EXPECT_LT(job->lived(), allowed(8s));
}

TEST_F(LauncherFaults, L7_AFullStderrThatNobodyReadsDelaysNoSignal) {
  const auto job = start(Command{
      .arguments = {DDP_LAUNCH, DDP_FAKE_WORKER, "print", "ready", "hold"}, .full_stderr = true});
  ASSERT_TRUE(job->sees("ready"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_LT(job->lived(), allowed(8s));
}

TEST_F(LauncherFaults, L6_SigusrReachesExternalWorkersThatHandleIt) {
  const auto job = launch_fakes(2, "on 0 [ catch USR1 catch USR2 ] print ready hold");
  ASSERT_TRUE(job->sees("[0:0] ready") && job->sees("[0:1] ready"));
  job->signal(SIGUSR1);
  job->signal(SIGUSR2);
  EXPECT_TRUE(job->sees("[0:0] caught USR1") && job->sees("[0:0] caught USR2"));
  EXPECT_EQ(job->wait(300ms), -1000);  // rank 1 would have died of either
  EXPECT_EQ(alive().size(), 4U);       // launcher, guard and both workers
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(LauncherFaults, L6_Sigusr1StopsWorkersThatSaveACheckpoint) {
  const auto job = launch_fakes(2, "progress 5 print ready wait TERM reason exit 143");
  ASSERT_TRUE(job->sees("[0:0] ready") && job->sees("[0:1] ready"));
  job->signal(SIGUSR1);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_TRUE(job->sees("[0:0] reason 1") && job->sees("[0:1] reason 1"));  // preempt
  EXPECT_EQ(job->err().find("Root Cause"), std::string::npos);
}

TEST_F(LauncherFaults, L6_ASigtermAfterSigusr1IsNotASecondRequest) {
  const auto job = launch_fakes(1, "progress 5 catch TERM print ready hold");
  ASSERT_TRUE(job->sees("ready"));
  job->signal(SIGUSR1);
  ASSERT_TRUE(job->sees("caught TERM"));
  const auto first = std::chrono::steady_clock::now();
  eventually([&] { return std::chrono::steady_clock::now() - first > 200ms; }, 1s);
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(500ms), -1000);  // still in its grace of 2 s
  EXPECT_EQ(job->wait(), 128 + SIGUSR1);
}

TEST_F(LauncherFaults, L8_TooFewDescriptorsAreRefusedWithTheNumberNeeded) {
  const auto shell = [&](const std::string& limit) {
    return start(Command{.arguments = {"/bin/sh",
                                       "-c",
                                       limit + "; exec \"$@\"",
                                       "sh",
                                       DDP_LAUNCH,
                                       "--output",
                                       (scratch() / "runs").string(),
                                       "--nproc-per-node=32",
                                       DDP_FAKE_WORKER,
                                       "print",
                                       "on"}});
  };
  const auto refused = shell("ulimit -n 64");
  EXPECT_EQ(refused->wait(), 126);
  EXPECT_TRUE(refused->sees("cannot start 32 workers: this needs "));
  EXPECT_TRUE(refused->sees("the limit is 64"));
  EXPECT_EQ(refused->out(), "");
  EXPECT_FALSE(std::filesystem::exists(scratch() / "runs"));
  // What it asks for suffices, and a soft limit is not an obstacle.
  const int needed = refused->number_after("this needs ");
  ASSERT_GT(needed, 64);
  const auto exact = shell("ulimit -n " + std::to_string(needed));
  EXPECT_EQ(exact->wait(), 0) << exact->err();
  const auto soft = shell("ulimit -S -n 64");
  EXPECT_EQ(soft->wait(), 0) << soft->err();
}

/// Before a command: it runs as a user of its own, who may have so many processes. RLIMIT_NPROC
/// counts all processes and threads of a user: this one has no others, and is not root.
std::vector<std::string> as_limited_user(int limit) {
  return {"/usr/bin/setpriv",
          "--reuid=" + std::to_string(200000 + ::getpid()),
          "--clear-groups",
          "/bin/bash",
          "-c",
          "ulimit -u " + std::to_string(limit) + "; exec \"$@\"",
          "sh"};
}

std::vector<std::string> operator+(std::vector<std::string> words,
                                   const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// A copy that any user may run, wherever the build is.
std::string open_copy(const std::filesystem::path& folder, const std::filesystem::path& program) {
  const std::filesystem::path copy = folder / program.filename();
  std::filesystem::copy_file(program, copy, std::filesystem::copy_options::skip_existing);
  return copy.string();
}

TEST_F(LauncherFaults, S2_ALimitOfProcessesIsSeenBeforeAnythingStarts) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become a user without other processes";
  std::filesystem::permissions(scratch(), std::filesystem::perms::all);
  const auto job =
      start(Command{.arguments = as_limited_user(6) +
                                 std::vector<std::string>{open_copy(scratch(), DDP_LAUNCH),
                                                          "--nproc-per-node=8",
                                                          open_copy(scratch(), DDP_FAKE_WORKER),
                                                          "print",
                                                          "on"},
                    .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
  EXPECT_EQ(job->wait(), 126);
  EXPECT_TRUE(
      job->sees("cannot start 8 workers: this needs 11 processes and threads, 5 are left: "
                "the limit of processes of this user is 6 (ulimit -u), 1 in use"));
  EXPECT_EQ(job->out(), "");
}

TEST_F(LauncherFaults, S2_ALimitOfProcessesTakesTheStartedOnesBack) {
  if (kInstrumented) GTEST_SKIP() << "a sanitizer starts threads of its own";
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become a user without other processes";
  std::filesystem::permissions(scratch(), std::filesystem::perms::all);
  const std::vector<std::string> inside{
      "/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc"};
  if (start(Command{.arguments = inside + std::vector<std::string>{"/bin/true"}})->wait() != 0) {
    GTEST_SKIP() << "needs the right to make a pid namespace";
  }
  // Three processes of the user that the launcher, in a pid namespace, cannot see: with the guard
  // and one worker the limit is reached. No thread is left that could write what is to be said.
  const std::vector<std::string> hold{open_copy(scratch(), DDP_FAKE_WORKER), "print", "on", "hold"};
  std::vector<std::unique_ptr<Running>> unseen;
  for (int i = 0; i < 3; ++i) {
    unseen.push_back(start(Command{.arguments = as_limited_user(6) + hold}));
    ASSERT_TRUE(unseen.back()->sees("on"));
  }
  const std::vector<std::string> launch{open_copy(scratch(), DDP_LAUNCH), "--nproc-per-node=2"};
  const auto job = start(Command{.arguments = inside + as_limited_user(6) + launch + hold,
                                 .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
  EXPECT_EQ(job->wait(), 126);
  EXPECT_TRUE(job->sees("cannot start rank 1: fork: "));
  EXPECT_TRUE(job->sees("The limit of processes is 6 (ulimit -u)"));
  for (const auto& process : unseen) {
    process->signal(SIGKILL);
    process->wait();
  }
  EXPECT_TRUE(nothing_lives_within(0ms));
}

// What an assertion of the agent does: abort().
TEST_F(LauncherFaults, L9_AnAgentThatAbortsLeavesACoreFileWhereOneIsAllowed) {
  if (kInstrumented) GTEST_SKIP() << "a sanitizer changes what the kernel does here";
  for (const std::string limit : {"unlimited", "0"}) {
    const auto job = start({.arguments = {"/bin/sh",
                                          "-c",
                                          "cd \"$0\" && ulimit -c " + limit + " && exec \"$@\"",
                                          scratch().string(),
                                          DDP_LAUNCH,
                                          DDP_FAKE_WORKER,
                                          "print",
                                          "ready",
                                          "hold"}});
    ASSERT_TRUE(job->sees("[0:0] ready"));
    job->signal(SIGABRT);
    EXPECT_EQ(job->wait(1s), 125);
    const bool is_piped = read_all("/proc/sys/kernel/core_pattern").starts_with('|');
    const bool is_told = job->err().find("core file, named as") != std::string::npos;
    EXPECT_TRUE(is_piped || is_told == (limit != "0")) << job->err();
    const bool lies_there = read_all("/proc/sys/kernel/core_pattern") == "core\n";
    EXPECT_TRUE(!lies_there || limit == "0" || !read_all(scratch() / "core").empty());
    EXPECT_TRUE(nothing_lives_within(1s)) << testing::PrintToString(alive());
  }
}

TEST_F(LauncherFaults, L9_AnAgentThatAbortsLeavesNothing) {
  const auto job =
      launch_fakes(2,
                   "ignore TERM spawn [ ignore TERM hold ] lose [ ignore TERM print lost hold ] "
                   "print ready hold");
  ASSERT_TRUE(job->sees("[0:0] ready") && job->sees("[0:1] ready") && job->sees("lost"));
  job->signal(SIGABRT);
  EXPECT_EQ(job->wait(1s), 125);
  EXPECT_TRUE(job->sees("internal error; the workers are killed"));
  EXPECT_TRUE(nothing_lives_within(1s)) << testing::PrintToString(alive());
}

std::vector<std::string> locks_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("lock-")) names.push_back(name);
  }
  return names;
}

TEST_F(LauncherFaults, L10_ARunIdThatTheUserGaveRunsOnce) {
  const std::map<std::string, std::string> environment{{"XDG_RUNTIME_DIR", scratch().string()}};
  const auto command = [&](const std::string& id) {
    return Command{
        .arguments =
            {DDP_LAUNCH, "--rdzv-id=" + id, DDP_FAKE_WORKER, "print", "ready", "wait", "TERM"},
        .environment = environment};
  };
  const auto first = start(command("a/b"));
  ASSERT_TRUE(first->sees("ready"));
  const auto second = start(command("a/b"));
  EXPECT_EQ(second->wait(), 202);
  EXPECT_LT(second->lived(), allowed(500ms));
  EXPECT_TRUE(second->sees("it is running already, locked by pid " + std::to_string(first->pid())));
  const auto other = start(command("c"));
  EXPECT_TRUE(other->sees("ready"));
  other->signal(SIGTERM);
  first->signal(SIGTERM);
  EXPECT_EQ(first->wait(), 143);
  EXPECT_EQ(other->wait(), 143);
  EXPECT_EQ(locks_in(scratch() / "ddp"), std::vector<std::string>());
}

TEST_F(LauncherFaults, L10_ARefusedLaunchMakesNoRunDirectory) {
  const std::string runs = (scratch() / "runs").string();
  const std::vector<std::string> arguments{
      "--rdzv-id", "once", "--output", runs, DDP_FAKE_WORKER, "print", "ready", "hold"};
  const auto first = launch(arguments);
  ASSERT_TRUE(first->sees("ready"));
  EXPECT_EQ(launch(arguments)->wait(), 202);
  EXPECT_FALSE(std::filesystem::exists(scratch() / "runs" / "fake_worker2"));
  first->signal(SIGTERM);
  EXPECT_EQ(first->wait(), 143);
}

TEST_F(LauncherFaults, L10_TheLockOfAKilledLauncherGoesWithItsWorkers) {
  const Command command{.arguments = {DDP_LAUNCH,
                                      "--rdzv-id=a",
                                      DDP_FAKE_WORKER,
                                      "lose",
                                      "[",
                                      "print",
                                      "lost",
                                      "hold",
                                      "]",
                                      "print",
                                      "ready",
                                      "wait",
                                      "TERM"},
                        .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}};
  const auto first = start(command);
  ASSERT_TRUE(first->sees("ready") && first->sees("lost"));
  first->signal(SIGKILL);
  EXPECT_EQ(first->wait(), -SIGKILL);
  EXPECT_EQ(locks_in(scratch() / "ddp").size(), 1U);
  const auto second = start(command);  // at once, while the guard may still be at work
  ASSERT_TRUE(second->sees("ready"));
  second->signal(SIGTERM);
  EXPECT_EQ(second->wait(), 143);
  EXPECT_TRUE(nothing_lives_within(kTestTimeout));  // the first one's guard too
}

TEST_F(LauncherFaults, L10_AWorkerOfAKilledLauncherStillHoldsTheLock) {
  // The guard is stopped, so that a daemon of the first run stays.
  const auto command = [&](const std::string& id) {
    return Command{.arguments = {DDP_LAUNCH,
                                 id,
                                 DDP_FAKE_WORKER,
                                 "lose",
                                 "[",
                                 "print",
                                 "lost",
                                 "hold",
                                 "]",
                                 "print",
                                 "ready",
                                 "hold"},
                   .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}};
  };
  const auto first = start(command("--rdzv-id=a"));
  ASSERT_TRUE(first->sees("ready") && first->sees("lost"));
  const pid_t guard = find_guard();
  send_signal(guard, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return state_of(guard) == "T"; }, kTestTimeout));
  first->signal(SIGKILL);
  EXPECT_EQ(first->wait(), -SIGKILL);
  const auto second = start(command("--rdzv-id=a"));
  EXPECT_EQ(second->wait(), 202);
  EXPECT_TRUE(second->sees("locked by what pid " + std::to_string(first->pid()) + " has left"));
  send_signal(guard, SIGCONT);
  EXPECT_TRUE(nothing_lives_within(kTestTimeout));
}

}  // namespace
}  // namespace ddp::test
