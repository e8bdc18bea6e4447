// At a hang every rank says where it stands, Python by its own means, and the report shows it once,
// with the rank that keeps the others waiting first. Row W6 of CASES.md.
#include <fstream>

#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr std::chrono::seconds kStartOfPython{3};  // of several at once, on a busy machine
constexpr const char* kHang = "--hang-timeout=2s";
// Files of these names stand for torch's: the report goes by where a file lies.
constexpr const char* kScript = R"(import os, sys, threading, time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
from torch.distributed import barrier

def step():
    print("in step", flush=True)
    threading.Event().wait()

def main():
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    if os.environ["RANK"] == os.environ.get("ODD", "1"):
        step()
    barrier()

main()
)";

class StacksAtAHang : public ProcessTest {
 protected:
  void SetUp() override {
    const fs::path package = scratch() / "site-packages" / "torch" / "distributed";
    fs::create_directories(package);
    std::ofstream(package / "__init__.py")
        << "import threading\ndef barrier():\n    threading.Event().wait()\n";
    script_ = write_file("hang.py", kScript);
  }

  std::unique_ptr<Running> hang(std::vector<std::string> arguments,
                                std::map<std::string, std::string> environment = {}) {
    Command command;
    command.arguments = {DDP_LAUNCH, "--grace=2s", kHang};
    command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
    command.environment = std::move(environment);
    command.environment.emplace("PYTHON_EXEC", "/usr/bin/python3");
    return start(command);
  }

  /// A program on the PATH before all others.
  std::string path_with(const std::string& name, const std::string& text) const {
    const fs::path folder = scratch() / "bin";
    fs::create_directories(folder);
    std::ofstream(folder / name) << text;
    fs::permissions(folder / name, fs::perms::owner_all);
    return folder.string() + ":/usr/bin:/bin";
  }

  /// The report's block of the root cause, and what comes after it.
  static std::string report_of(const Running& job) {
    const std::size_t begin = job.err().find("Root Cause");
    return begin == std::string::npos ? "" : job.err().substr(begin);
  }

  std::string script_;
};

TEST_F(StacksAtAHang, W6_ThePythonRankThatIsNotInTheCollectiveIsBlamedWithItsLine) {
  const auto job = hang({"--nproc-per-node=3", script_});
  EXPECT_EQ(job->wait(), 124);
  EXPECT_LT(job->lived(), 2s + 2s + kStartOfPython);
  const std::string report = report_of(*job);
  EXPECT_EQ(count(report, "rank      : 1 (local_rank: 1)"), 1U) << job->err();
  EXPECT_EQ(count(report, "stands in : hang.py:7 in step\n"), 1U) << report;
  EXPECT_EQ(count(report, "hang.py:12 in main"), 1U) << report;
  // Equal stacks once, idle threads left out, and every rank but the first one was stopped by us.
  EXPECT_EQ(count(report, "  ranks 0,2:\n"), 1U) << report;
  EXPECT_EQ(count(report, "torch/distributed/__init__.py:3 in barrier"), 1U) << report;
  EXPECT_EQ(count(report, "1 idle thread is left out"), 2U) << report;
  EXPECT_EQ(count(report, "): stopped by the launcher"), 2U) << report;
  // The lines are the report's alone.
  EXPECT_EQ(count(job->err(), "Fatal Python error"), 0U) << job->err();
}

TEST_F(StacksAtAHang, TheRawTextIsInTheLogFiles) {
  const fs::path logs = scratch() / "logs";
  const auto job = hang({"--nproc-per-node=2", "--log-dir", logs.string(), "-r3", script_});
  EXPECT_EQ(job->wait(), 124);
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(logs)) {
    if (entry.path().filename() == "stderr.log") text += read_all(entry.path());
  }
  EXPECT_EQ(count(text, "Fatal Python error: Aborted"), 2U) << text;
  EXPECT_EQ(count(text, "Current thread 0x"), 2U) << text;
}

TEST_F(StacksAtAHang, PythonBehindAShellIsFoundAndItsLoadersAreLeftOut) {
  const std::string loaders = write_file("loaders.py",
                                         "import os, threading\n"
                                         "if os.fork() == 0: threading.Event().wait()\n"
                                         "threading.Event().wait()\n");
  // The trap: that it is told to end as well does not keep it from saying how its program ended.
  const std::string wrapper = write_file(
      "run.sh", "trap : TERM\n/usr/bin/python3 " + loaders + "\necho code $?\nexit 134\n");
  const auto job = hang({"--no-python", "/bin/sh", wrapper});
  EXPECT_EQ(job->wait(), 124);
  const std::string report = report_of(*job);
  EXPECT_EQ(count(report, "stands in : loaders.py:3 in <module>"), 1U) << job->err();
  EXPECT_EQ(count(report, "loaders.py:2"), 0U) << report;
  EXPECT_EQ(count(job->out(), "code 134"), 1U) << job->out();
}

TEST_F(StacksAtAHang, NoCoreFileIsLeft) {
  // A limit that allows one, in a directory that takes one.
  const std::string wrapper = write_file("run.sh",
                                         "ulimit -c unlimited\ncd " + scratch().string() +
                                             "\nexec /usr/bin/python3 " + script_ + "\n");
  const auto job = hang({"--nproc-per-node=2", "--no-python", "/bin/sh", wrapper});
  EXPECT_EQ(job->wait(), 124);
  EXPECT_EQ(count(report_of(*job), "stands in : hang.py:7 in step"), 1U) << job->err();
  EXPECT_EQ(count(job->err(), "core dumped"), 0U) << job->err();
  for (const auto& entry : fs::directory_iterator(scratch()))
    EXPECT_FALSE(entry.path().filename().string().starts_with("core")) << entry.path();
}

TEST_F(StacksAtAHang, AUserWhoTurnsPythonsHandlerOffGetsNoStackAndTheJobEnds) {
  // Empty is Python's way to say no; any other text turns it on.
  Command command;
  command.arguments = {"/usr/bin/env",
                       "PYTHONFAULTHANDLER=",
                       "PYTHON_EXEC=/usr/bin/python3",
                       DDP_LAUNCH,
                       "--grace=2s",
                       kHang,
                       "--nproc-per-node=2",
                       script_};
  const auto job = start(command);
  EXPECT_EQ(job->wait(), 124);
  EXPECT_LT(job->lived(), 2s + 2s + kStartOfPython);
  EXPECT_EQ(count(report_of(*job), "stands in :"), 0U) << job->err();
  EXPECT_EQ(count(report_of(*job), "exitcode  : -15 "), 1U) << job->err();
}

TEST_F(StacksAtAHang, AStoppedRankSaysWhereItWasAndIsBlamed) {
  const std::string script = write_file("stopped.py",
                                        "import os, signal, threading\n"
                                        "def frozen():\n"
                                        "    os.kill(os.getpid(), signal.SIGSTOP)\n"
                                        "if os.environ['RANK'] == '0': threading.Event().wait()\n"
                                        "while True: frozen()\n");
  const auto job = hang({"--nproc-per-node=2", script});
  EXPECT_EQ(job->wait(), 124);
  const std::string report = report_of(*job);
  EXPECT_EQ(count(report, "rank      : 1 (local_rank: 1)"), 1U) << job->err();
  EXPECT_EQ(count(report, "stands in : stopped.py:3 in frozen"), 1U) << report;
}

TEST_F(StacksAtAHang, PySpyIsUsedWhereItIsInstalled) {
  const std::string path = path_with("py-spy",
                                     "#!/bin/sh\n"
                                     "echo \"Process $4: python3 hang.py\"\n"
                                     "echo 'Thread 1 (idle): \"MainThread\"'\n"
                                     "echo '    seen_by_py_spy (hang.py:21)'\n");
  const auto job = hang({"--nproc-per-node=2", script_}, {{"PATH", path}});
  EXPECT_EQ(job->wait(), 124);
  const std::string report = report_of(*job);
  EXPECT_EQ(count(report, "stands in : hang.py:21 in seen_by_py_spy"), 1U) << job->err();
  EXPECT_EQ(count(report, "rank 1: as rank 0"), 1U) << report;
  EXPECT_EQ(count(report, "exitcode  : -15 "), 1U) << report;  // they were ended as usual
}

TEST_F(StacksAtAHang, PythonPrintsItsOwnStacksWhenPySpyFails) {
  for (const std::string script : {"#!/bin/sh\necho 'Error: Permission denied' >&2\nexit 1\n",
                                   "#!/bin/sh\nexec tail -f /dev/null\n"}) {
    const auto job = hang({"--nproc-per-node=2", script_}, {{"PATH", path_with("py-spy", script)}});
    EXPECT_EQ(job->wait(), 124);
    EXPECT_LT(job->lived(), 2s + 3s + 2s + kStartOfPython) << script;
    EXPECT_EQ(count(report_of(*job), "stands in : hang.py:7 in step"), 1U) << job->err();
  }
}

}  // namespace
}  // namespace ddp::test
