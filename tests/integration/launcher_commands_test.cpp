// status, stop and logs: a running job is looked at and stopped from another shell.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "launcher/os/port.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

/// Each test has a runtime directory of its own, so that it sees its own jobs only.
class LauncherCommands : public ProcessTest {
 protected:
  std::unique_ptr<Running> start_job(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {DDP_LAUNCH, "--grace", "2s"});
    return start(Command{.arguments = std::move(arguments), .environment = runtime()});
  }
  /// What the command prints, after it has ended by `code`.
  std::string run(std::vector<std::string> words, int code = 0) {
    words.insert(words.begin(), DDP_LAUNCH);
    const auto command = start(Command{.arguments = std::move(words), .environment = runtime()});
    EXPECT_EQ(command->wait(), code) << command->err();
    return command->out() + command->err();
  }
  [[nodiscard]] std::map<std::string, std::string> runtime() const {
    return {{"XDG_RUNTIME_DIR", scratch().string()}};
  }
  [[nodiscard]] std::filesystem::path socket() const {
    for (const auto& entry : std::filesystem::directory_iterator(scratch() / "ddp")) {
      if (std::filesystem::exists(entry.path() / "control")) return entry.path() / "control";
    }
    return {};
  }
};

TEST_F(LauncherCommands, StatusShowsEveryWorkerAndItsProgress) {
  EXPECT_THAT(run({"status"}), HasSubstr("no job of yours runs on this node"));
  const auto job = start_job({"--nproc-per-node",
                              "2",
                              "--rdzv-id",
                              "mine",
                              DDP_FAKE_WORKER,
                              "on",
                              "0",
                              "[",
                              "progress",
                              "7",
                              "]",
                              "print",
                              "ready",
                              "hold"});
  ASSERT_TRUE(job->sees("[0:0] ready") && job->sees("[0:1] ready"));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"status"},
                                                {"status", "mine"},
                                                {"status", std::to_string(job->pid())}}) {
    EXPECT_THAT(run(words),
                AllOf(HasSubstr("pid " + std::to_string(job->pid())),
                      HasSubstr("rank 0"),
                      HasSubstr("step 7"),
                      HasSubstr("rank 1")));
  }
  EXPECT_THAT(run({"status", "other"}, 2), HasSubstr("no such job of yours runs"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
  EXPECT_THAT(run({"status"}), HasSubstr("no job of yours runs on this node"));
}

TEST_F(LauncherCommands, StopStopsAsSigtermDoes) {
  const auto job = start_job({DDP_FAKE_WORKER, "print", "ready", "wait", "TERM", "print", "bye"});
  ASSERT_TRUE(job->sees("ready"));
  const std::string stopped = run({"stop"});
  EXPECT_THAT(stopped, HasSubstr("stopping 1 worker of pid " + std::to_string(job->pid())));
  EXPECT_THAT(stopped, HasSubstr("fake_worker"));  // which job that was
  EXPECT_EQ(job->wait(), 143);
  EXPECT_TRUE(job->sees("[0:0] bye"));
}

TEST_F(LauncherCommands, StopWorksWithOtherSignalsToHandle) {
  const auto job =
      start_job({"--signals-to-handle", "SIGINT", DDP_FAKE_WORKER, "print", "ready", "hold"});
  ASSERT_TRUE(job->sees("ready"));
  run({"stop"});
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(LauncherCommands, StopNeedsANameWhenSeveralJobsRun) {
  const auto first = start_job({"--rdzv-id", "one", DDP_FAKE_WORKER, "print", "ready", "hold"});
  const auto second = start_job({"--rdzv-id", "two", DDP_FAKE_WORKER, "print", "ready", "hold"});
  ASSERT_TRUE(first->sees("ready") && second->sees("ready"));
  EXPECT_THAT(run({"stop"}, 2), HasSubstr("2 jobs are meant"));
  run({"stop", "one"});
  EXPECT_EQ(first->wait(), 143);
  run({"stop"});
  EXPECT_EQ(second->wait(), 143);
}

TEST_F(LauncherCommands, TwoAgentsOfOneJobAreOneJob) {
  const std::string port = std::to_string(launcher::free_port());
  std::vector<std::unique_ptr<Running>> agents;
  for (const char* const node : {"0", "1"}) {
    agents.push_back(start_job({"--nnodes",
                                "2",
                                "--node-rank",
                                node,
                                "--master-addr",
                                "127.0.0.1",
                                "--master-port",
                                port,
                                "--rdzv-id",
                                "both",
                                DDP_FAKE_WORKER,
                                "error",
                                "trouble",
                                "print",
                                "ready",
                                "hold"}));
  }
  for (const auto& agent : agents)
    ASSERT_TRUE(agent->sees("ready"));
  EXPECT_THAT(run({"status", "both"}), AllOf(HasSubstr("rank 0"), HasSubstr("rank 1")));
  EXPECT_THAT(run({"logs", "both"}),
              AllOf(HasSubstr("[0 stderr] trouble"), HasSubstr("[1 stderr] trouble")));
  run({"stop", "both"});
  for (const auto& agent : agents)
    EXPECT_EQ(agent->wait(), 143);
}

TEST_F(LauncherCommands, LogsShowTheLastLinesOfEveryRank) {
  const auto job = start_job({"--nproc-per-node",
                              "2",
                              DDP_FAKE_WORKER,
                              "error",
                              "first trouble",
                              "print",
                              "ready",
                              "hold"});
  ASSERT_TRUE(job->sees("[0:0] ready") && job->sees("[0:1] ready"));
  EXPECT_THAT(run({"logs"}),
              AllOf(HasSubstr("[0 stderr] first trouble"), HasSubstr("[1 stderr] first trouble")));
  run({"stop"});
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(LauncherCommands, AStoppedAgentIsNamedAndHoldsNobodyUp) {
  const auto job = start_job({DDP_FAKE_WORKER, "print", "ready", "hold"});
  ASSERT_TRUE(job->sees("ready"));
  job->signal(SIGSTOP);
  EXPECT_THAT(run({"status"}), HasSubstr("does not answer: it is stopped"));
  job->signal(SIGCONT);
  run({"stop"});
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(LauncherCommands, AfterAFlagItsNameIsAProgram) {
  const auto job = start_job({DDP_FAKE_WORKER, "print", "ready", "hold"});
  ASSERT_TRUE(job->sees("ready"));
  EXPECT_THAT(run({"--no-python", "stop"}, 127), HasSubstr("stop"));
  EXPECT_TRUE(lives_on(job->pid()));
  run({"stop"});
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(LauncherCommands, TheSocketIsTheUsersAlone) {
  const auto job = start_job({DDP_FAKE_WORKER, "print", "ready", "hold"});
  ASSERT_TRUE(job->sees("ready"));
  struct stat status {};
  ASSERT_EQ(::stat(socket().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  EXPECT_TRUE(eventually([&] { return socket().empty(); }, kTestTimeout));  // the guard tidies up
  EXPECT_TRUE(nothing_lives_within(kTestTimeout));                          // ... and ends after it
}

TEST_F(LauncherCommands, GarbageAndSilenceOnTheSocketHarmNobody) {
  const auto job = start_job({DDP_FAKE_WORKER, "print", "ready", "hold"});
  ASSERT_TRUE(job->sees("ready"));
  std::vector<int> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket().string().copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::connect(clients.back(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const std::string garbage(i % 2 == 0 ? 0 : 100000, 'x');
    (void)::send(clients.back(), garbage.data(), garbage.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  EXPECT_THAT(run({"status"}), HasSubstr("rank 0"));
  run({"stop"});
  EXPECT_EQ(job->wait(), 143);
  for (const int client : clients)
    ::close(client);
}

TEST_F(LauncherCommands, APathToTheRunDirectoryNamesTheJob) {
  const auto runs = scratch() / "runs";
  for (const std::string typed : {"fake_worker", "fake_worker/", "latest", "../runs/fake_worker"}) {
    const auto job = start_job({"--output", runs.string(), DDP_FAKE_WORKER, "print", "on", "hold"});
    ASSERT_TRUE(job->sees("[0:0] on"));
    EXPECT_THAT(run({"stop", (runs / typed).string()}), HasSubstr("stopping 1 worker")) << typed;
    EXPECT_EQ(job->wait(), 143);
    std::filesystem::remove_all(runs);
  }
}

TEST_F(LauncherCommands, LogsOfARunThatHasEndedSayWhereTheirFilesAre) {
  const auto runs = scratch() / "runs";
  const auto job = start_job({"--output", runs.string(), DDP_FAKE_WORKER, "print", "on"});
  EXPECT_EQ(job->wait(), 0);
  const std::string run_dir = (runs / "fake_worker").string();
  EXPECT_THAT(run({"logs", run_dir}, 2), HasSubstr("log files are in " + run_dir + "/logs."));
}

TEST_F(LauncherCommands, ControlCharactersOfArgumentsAreNotPrinted) {
  const std::string text = run({"na\x1b[31m\x07me=3"}, 127);
  EXPECT_THAT(text, HasSubstr("na?[31m?me=3"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(LauncherCommands, AVerbOfTheWorkerIsPointedOut) {
  EXPECT_THAT(run({"eval", "runs/job"}, 127), HasSubstr("Type ddp-worker eval ..."));
}

TEST_F(LauncherCommands, ATextThatNobodyReadsOnEndsSilently) {
  const std::string line =
      "exec 3> >(true); wait $!; " + std::string(DDP_LAUNCH) + " --schema >&3; echo $?";
  const auto shell = start(Command{.arguments = {"bash", "-c", line}, .environment = runtime()});
  EXPECT_EQ(shell->wait(), 0);
  EXPECT_EQ(shell->out(), "141\n");
  EXPECT_EQ(shell->err(), "");
}

TEST_F(LauncherCommands, StatusAsJsonIsTheAgentsAnswers) {
  EXPECT_EQ(run({"status", "--json"}), "[]\n");
  const auto job = start_job({DDP_FAKE_WORKER, "progress", "7", "print", "on", "hold"});
  ASSERT_TRUE(job->sees("[0:0] on"));
  const std::string text = run({"status", "--json"});
  EXPECT_THAT(text, AllOf(testing::StartsWith("[{"), testing::EndsWith("}]\n")));
  EXPECT_THAT(text, AllOf(HasSubstr("\"step\":7"), HasSubstr("\"ended\":false")));
  run({"stop"});
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(LauncherCommands, StatusHasWhatAPythonProgramTellsOnItsPage) {
  const std::string script = write_file("train.py",
                                        "import os, signal, sys\n"
                                        "sys.path.insert(0, '" DDP_PAGE_DIR
                                        "')\n"
                                        "from ddp_progress import progress\n"
                                        "progress.accuracy(0.75)\n"
                                        "progress.step(7, 0.086234, total=9, data_wait=1.5, "
                                        "device_bytes=2**31)\n"
                                        "word = progress._words[3072 // 4]\n"
                                        "print('lock', word & 0x3fffffff, flush=True)\n"
                                        "print('on', os.getpid(), flush=True)\n"
                                        "signal.pause()\n");
  const auto job = start_job({script});
  ASSERT_TRUE(job->sees("[0:0] on"));
  EXPECT_EQ(job->number_after("[0:0] lock "), job->number_after("[0:0] on "));  // its main thread's
  EXPECT_THAT(run({"status", "--json"}),
              AllOf(HasSubstr("\"step\":7,\"steps_total\":9"),
                    HasSubstr("\"data_wait_seconds\":1.5,\"device_bytes\":2147483648"),
                    HasSubstr("\"accuracy\":0.75")));
  EXPECT_THAT(run({"status"}), HasSubstr("training  step 7/9  loss 0.0862\n"));
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143);
}

// The main thread's list of robust locks leads through it.
TEST_F(LauncherCommands, ThePageOfAPythonProgramStaysMappedWhateverBecomesOfTheModule) {
  const std::string script =
      write_file("train.py",
                 "import gc, pathlib, sys\n"
                 "sys.path.insert(0, '" DDP_PAGE_DIR
                 "')\n"
                 "import ddp_progress\n"
                 "ddp_progress.atexit.unregister(ddp_progress.progress.finish)\n"
                 "del ddp_progress, sys.modules['ddp_progress']\n"
                 "gc.collect()\n"
                 "maps = pathlib.Path('/proc/self/maps').read_text()\n"
                 "print('mapped', 'memfd:ddp-progress' in maps)\n");
  const auto job = start_job({script});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), HasSubstr("mapped True"));
}

TEST_F(LauncherCommands, StatusIsWatchedUntilTheJobEnds) {
  const auto job =
      start_job({DDP_FAKE_WORKER, "progress", "7", "pid", "print", "on", "wait", "USR1", "finish"});
  ASSERT_TRUE(job->sees("[0:0] on"));
  const auto piped =
      start(Command{.arguments = {DDP_LAUNCH, "status", "--watch"}, .environment = runtime()});
  const std::string line = std::string(DDP_LAUNCH) + " status --watch";
  const auto shown =
      start(Command{.arguments = {"script", "-qefc", line, "/dev/null"}, .environment = runtime()});
  EXPECT_TRUE(shown->sees("\x1b[2A\r\x1b[J")) << shown->out();  // it is drawn again in its place
  const auto dumb =
      start(Command{.arguments = {"script", "-qefc", "TERM=dumb " + line, "/dev/null"},
                    .environment = runtime()});
  EXPECT_TRUE(dumb->sees("step 7"));
  EXPECT_TRUE(piped->sees("step 7"));
  send_signal(job->number_after("[0:0] pid "), SIGUSR1);
  EXPECT_EQ(job->wait(), 0);
  EXPECT_EQ(piped->wait(), 0);
  EXPECT_EQ(shown->wait(), 0);
  EXPECT_EQ(dumb->wait(), 0);
  EXPECT_EQ(dumb->out().find('\x1b'), std::string::npos) << dumb->out();
  EXPECT_THAT(piped->out(), AllOf(HasSubstr("ended\n"), testing::Not(HasSubstr("\x1b["))));
}

TEST_F(LauncherCommands, LogsAreFollowedToTheirLastLineWhereThereAreFiles) {
  const auto job = start_job({"--nproc-per-node",
                              "2",
                              "--output",
                              (scratch() / "runs").string(),
                              DDP_FAKE_WORKER,
                              "lines",
                              "30",
                              "old",
                              "pid",
                              "print",
                              "on",
                              "wait",
                              "USR1",
                              "lines",
                              "500",
                              "new",
                              "partial",
                              "last"});
  ASSERT_TRUE(job->sees("[0:0] on") && job->sees("[0:1] on"));
  const auto has_on = [&](const char* file) {  // the console may be ahead of the files
    return read_all(scratch() / "runs/fake_worker/logs/round-0" / file).find("\non\n") !=
           std::string::npos;
  };
  ASSERT_TRUE(
      eventually([&] { return has_on("rank-0.out") && has_on("rank-1.out"); }, kTestTimeout));
  const auto all =
      start(Command{.arguments = {DDP_LAUNCH, "logs", "-f"}, .environment = runtime()});
  const auto one =
      start(Command{.arguments = {DDP_LAUNCH, "logs", "-f", "1"}, .environment = runtime()});
  EXPECT_TRUE(all->sees("[0 stdout] on") && all->sees("[1 stdout] on")) << all->out();
  EXPECT_TRUE(one->sees("[1 stdout] on")) << one->out();
  send_signal(job->number_after("[0:0] pid "), SIGUSR1);
  send_signal(job->number_after("[0:1] pid "), SIGUSR1);
  EXPECT_EQ(job->wait(), 0);
  EXPECT_EQ(all->wait(), 0);
  EXPECT_EQ(one->wait(), 0);
  EXPECT_EQ(count(all->out(), " stdout] new "), 1000U);
  EXPECT_EQ(count(one->out(), "[1 stdout] new "), 500U);
  EXPECT_EQ(count(one->out(), "[0 stdout]"), 0U);
  EXPECT_EQ(count(one->out(), "[1 stdout] old "), 18U);  // of 20 lines: a pid and `on`, too
  EXPECT_THAT(one->out(), HasSubstr("[1 stdout] last [no newline]\n"));
}

TEST_F(LauncherCommands, LogsWithoutFilesAreFollowedLineByLine) {
  const auto job = start_job({DDP_FAKE_WORKER,
                              "pid",
                              "print",
                              "on",
                              "wait",
                              "USR1",
                              "lines",
                              "10",
                              "new",
                              "wait",
                              "USR2",
                              "finish"});
  ASSERT_TRUE(job->sees("[0:0] on"));
  const auto shown =
      start(Command{.arguments = {DDP_LAUNCH, "logs", "--follow"}, .environment = runtime()});
  EXPECT_TRUE(shown->sees("[0 stdout] on"));
  send_signal(job->number_after("[0:0] pid "), SIGUSR1);
  EXPECT_TRUE(shown->sees("[0 stdout] new 9")) << shown->out();
  send_signal(job->number_after("[0:0] pid "), SIGUSR2);
  EXPECT_EQ(job->wait(), 0);
  EXPECT_EQ(shown->wait(), 0);
  EXPECT_EQ(count(shown->out(), "[0 stdout] new "), 10U);
  EXPECT_EQ(count(shown->out(), "[0 stdout] on"), 1U);
}

TEST_F(LauncherCommands, LogsOfOneRankAndOfNoSuchRank) {
  const auto job = start_job(
      {"--nproc-per-node", "2", "--rdzv-id", "mine", DDP_FAKE_WORKER, "print", "on", "hold"});
  ASSERT_TRUE(job->sees("[0:0] on") && job->sees("[0:1] on"));
  EXPECT_EQ(run({"logs", "mine", "1"}), "[1 stdout] on\n");
  EXPECT_EQ(run({"logs", "0"}), "[0 stdout] on\n");
  EXPECT_THAT(run({"logs", "7"}, 2), HasSubstr("no rank 7 on this node. Its ranks here: 0, 1."));
  run({"stop"});
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(LauncherCommands, EveryVerbHasItsHelp) {
  for (const std::string verb : {"status", "stop", "logs", "doctor", "compare"})
    EXPECT_THAT(run({verb, "--help"}), testing::StartsWith("ddp-launch " + verb));
}

}  // namespace
}  // namespace ddp::test
