// --hosts: agents on other hosts, started by ssh. A stand-in for ssh runs here what it is told to
// run there, in a session of its own and with no more environment than a login has; so what is
// tested is all but the way to the other host. The last test takes that way, with a real sshd.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/support/cluster.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// Each agent is told that it is alone: what several of them do together has tests of its own.
constexpr const char* kFakeSsh = R"(#!/bin/bash
for word; do host=$command; command=$word; done
echo "$host $command" >>"$0.calls"
case $host in
  gone) echo "ssh: connect to host gone port 22: Connection refused" >&2; exit 255 ;;
  probe*) read -r token; echo "ddp-launch: connected" >&2; echo "$host $token"; exit 0 ;;
  bare) command=${command/ddp-launch/ddp-launch-missing} ;;
esac
command=$(sed 's/--nnodes=[0-9]* --node-rank=[0-9]* \(--master-addr=[^ ]*\)\?//' <<<"$command")
env -i PATH="$PATH" setsid sh -c "$command" < <(cat)
)";

class Hosts : public ProcessTest {
 protected:
  Hosts() : ssh_(write_file("ssh", kFakeSsh)) {
    std::filesystem::permissions(ssh_, std::filesystem::perms::owner_all);
  }

  std::unique_ptr<Running> launch_on(const std::string& hosts,
                                     const std::string& verbs,
                                     std::vector<std::string> flags = {"--grace=2s"}) {
    flags.insert(flags.begin(), {"--hosts", hosts, "--ssh", ssh_});
    flags.emplace_back(DDP_FAKE_WORKER);
    std::istringstream stream(verbs);
    for (std::string word; stream >> word;)
      flags.push_back(word);
    return launch(flags);
  }

  [[nodiscard]] std::vector<std::string> calls() const {
    return lines_of(read_all(ssh_ + ".calls"));
  }

  static bool both_have_started(Running& job) {
    return eventually(
        [&] {
          job.read_for(10ms);
          return count(job.out(), "started") == 2;
        },
        kTestTimeout);
  }

  std::string ssh_;
};

TEST_F(Hosts, EachHostGetsAnAgentAndTheJobsCodeComesBack) {
  auto job = launch_on("a,user@b:2", "print hello exit 7");
  EXPECT_EQ(job->wait(), 7) << job->err();
  EXPECT_THAT(calls(), SizeIs(2));
  EXPECT_THAT(calls(),
              testing::UnorderedElementsAre(
                  AllOf(StartsWith("a "), HasSubstr(" --nnodes=2 --node-rank=0 --master-addr=a ")),
                  AllOf(StartsWith("user@b "),
                        HasSubstr(" --nnodes=2 --node-rank=1 --master-addr=a "),
                        HasSubstr(" --nproc-per-node=2 "))));
}

TEST_F(Hosts, AGoodEndIsTheJobs) {
  auto job = launch_on("a,b", "print well");
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(count(job->out(), "well\n"), 2U);
}

TEST_F(Hosts, AFileNamesTheHosts) {
  const std::string file = write_file("nodes", "# ours\na\nb slots=2\n");
  auto job = launch({"--hostfile", file, "--ssh", ssh_, DDP_FAKE_WORKER, "print", "x"});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(count(job->out(), "x\n"), 3U);
}

TEST_F(Hosts, AllGetTheSameTokenAndNobodySeesIt) {
  auto job = launch_on("probe1,probe2", "");
  EXPECT_EQ(job->wait(), 0) << job->err();
  const std::vector<std::string> lines = lines_of(job->out());
  ASSERT_THAT(lines, SizeIs(2));
  const std::string token = lines[0].substr(lines[0].find(' ') + 1);
  EXPECT_THAT(token, MatchesRegex("[0-9a-f]{64}"));
  EXPECT_THAT(lines[1], EndsWith(" " + token));
  EXPECT_THAT(read_all(ssh_ + ".calls"), Not(HasSubstr(token)));
  auto again = launch_on("probe1", "");
  EXPECT_EQ(again->wait(), 0);
  EXPECT_THAT(again->out(), Not(HasSubstr(token)));  // a fresh one for each job
}

TEST_F(Hosts, WorkersSeeNothingOfTheConnection) {
  const std::string script = write_file("read.sh", "#!/bin/sh\necho \"read: $(cat)\"\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  auto job = launch({"--hosts", "a", "--ssh", ssh_, script});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), HasSubstr("read: \n"));
}

TEST_F(Hosts, AHostThatIsNotThereEndsTheOthers) {
  auto job = launch_on("a,gone", "print started wait TERM");
  EXPECT_EQ(job->wait(), 202) << job->err();
  EXPECT_THAT(job->err(),
              HasSubstr("ddp-launch: host gone: ssh failed: exit code 255, ssh: connect to host "
                        "gone port 22: Connection refused\n"));
  EXPECT_THAT(job->err(), HasSubstr(ssh_ + " -oBatchMode=yes gone " + DDP_LAUNCH + " --version"));
}

TEST_F(Hosts, AHostWithoutTheProgramIsNamed) {
  auto job = launch_on("bare", "");
  EXPECT_EQ(job->wait(), 127) << job->err();
  EXPECT_THAT(job->err(), HasSubstr("ddp-launch: host bare: no agent was started: exit code 127"));
}

TEST_F(Hosts, AJobWhoseCodeIsSshsOwnKeepsIt) {
  auto job = launch_on("a,b", "exit 255");
  EXPECT_EQ(job->wait(), 255) << job->err();
  EXPECT_THAT(job->err(), Not(HasSubstr("ssh failed")));
}

TEST_F(Hosts, AnAgentThatIsKilledDoesNotHideTheJobsCode) {
  auto job = launch_on("a,killed", "print started wait TERM");
  ASSERT_TRUE(both_have_started(*job)) << job->out() << job->err();
  for (const std::string& process : alive()) {
    if (process.find(" -oBatchMode=yes ") == std::string::npos) continue;
    if (process.find(" killed cd ") != std::string::npos) send_signal(std::stoi(process), SIGKILL);
  }
  // What the others do then is the job's matter; here they are told to end after a while.
  EXPECT_EQ(job->wait(), 143) << job->err();
  EXPECT_THAT(job->err(), HasSubstr("some agents have not ended with the others"));
  EXPECT_THAT(job->err(), HasSubstr("host killed: the connection, or its agent, was cut off"));
}

TEST_F(Hosts, ASignalStopsTheJobOnAllHosts) {
  auto job = launch_on("a,b", "print started wait TERM");
  ASSERT_TRUE(both_have_started(*job)) << job->out() << job->err();
  job->signal(SIGINT);
  EXPECT_EQ(job->wait(), 143) << job->err();
  EXPECT_THAT(job->err(), HasSubstr("stopping the job on all hosts"));
}

TEST_F(Hosts, ASecondSignalKillsTheWorkers) {
  auto job = launch_on("a,b", "ignore TERM print started sleep 60", {"--grace=60s"});
  ASSERT_TRUE(both_have_started(*job)) << job->out() << job->err();
  job->signal(SIGTERM);
  ASSERT_TRUE(
      eventually([&] { return job->sees("SIGTERM", 10ms) && count(job->err(), "SIGTERM") >= 2; },
                 kTestTimeout))
      << job->err();
  job->read_for(150ms);  // within 100 ms it is the same request
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143) << job->err();
  EXPECT_LT(job->lived(), allowed(20s));
}

TEST_F(Hosts, WorkersEndWhenTheStarterIsKilled) {
  auto job = launch_on("a,b", "print started wait TERM");
  ASSERT_TRUE(both_have_started(*job)) << job->out() << job->err();
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  EXPECT_TRUE(nothing_lives_within(5s));
}

TEST_F(Hosts, LinesOfSeveralHostsDoNotMix) {
  const std::string line(3000, 'x');
  const std::string script = write_file(
      "lines.sh", "#!/bin/sh\ni=0\nwhile [ $i -lt 300 ]; do echo " + line + "; i=$((i+1)); done\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  auto job = launch({"--hosts", "a,b,c", "--ssh", ssh_, script});
  EXPECT_EQ(job->wait(), 0) << job->err();
  const std::vector<std::string> lines = lines_of(job->out());
  EXPECT_THAT(lines, SizeIs(900));
  EXPECT_THAT(lines, testing::Each(EndsWith(" " + line)));
  for (const std::string& text : lines)
    EXPECT_LT(text.size(), line.size() + 20);
}

TEST_F(Hosts, DryRunShowsWhatSshWouldGet) {
  auto job = launch_on("a,b", "exit 0", {"--dry-run"});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_EQ(lines_of(job->out()).size(), 2U);
  EXPECT_THAT(job->out(), HasSubstr("-oBatchMode=yes"));
  EXPECT_FALSE(std::filesystem::exists(ssh_ + ".calls"));
}

TEST_F(Hosts, WrongArgumentsAreReportedBeforeAnySshStarts) {
  auto job = launch_on("a,-oProxyCommand=x,a", "exit 0");
  EXPECT_EQ(job->wait(), 2);
  EXPECT_THAT(job->err(), AllOf(HasSubstr("no host's name"), HasSubstr("named twice")));
  auto other = launch({"--hosts", "a", "--ssh", ssh_, "job-that-is-not-there.yaml"});
  EXPECT_EQ(other->wait(), 2) << other->err();
  auto file = launch({"--hostfile", "/nonexistent", DDP_FAKE_WORKER});
  EXPECT_EQ(file->wait(), 2);
  EXPECT_THAT(file->err(), HasSubstr("--hostfile /nonexistent: "));
  EXPECT_FALSE(std::filesystem::exists(ssh_ + ".calls"));
}

TEST_F(Hosts, AnAgentWithoutATokenIsRefused) {
  auto agent =
      start({{"sh", "-c", std::string("exec ") + DDP_LAUNCH + " --token-stdin true </dev/null"}});
  EXPECT_EQ(agent->wait(), 2) << agent->err();
  EXPECT_THAT(agent->err(), HasSubstr("no line with a token"));
}

/// Several nodes, and a stand-in for ssh that enters them.
class HostsOnNodes : public ClusterTest {
 protected:
  std::string write_ssh() {
    std::string script =
        "#!/bin/bash\nfor word; do host=$command; command=$word; done\ncase $host in\n";
    for (int node = 0; node < cluster().size(); ++node) {
      script += Cluster::host(node) + ") set --";
      for (const std::string& word : cluster().enter(node))
        script += " '" + word + "'";
      script += " ;;\n";
    }
    script +=
        "*) echo \"$host is not known\" >&2; exit 255 ;;\nesac\nenv -i PATH=\"$PATH\" setsid "
        "\"$@\" sh -c \"$command\" < <(cat)\n";
    const std::string path = write_file("ssh", script);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  /// ddp-launch on node 0, with `words` and that ssh.
  std::unique_ptr<Running> launch_from_node0(std::vector<std::string> words) {
    Command command{.arguments = cluster().enter(0)};
    command.arguments.emplace_back(DDP_LAUNCH);
    if (words[0] == "doctor") {
      command.arguments.push_back(words[0]);
      words.erase(words.begin());
    }
    command.arguments.push_back("--ssh=" + write_ssh());
    command.arguments.insert(command.arguments.end(), words.begin(), words.end());
    return start(std::move(command));
  }
};

TEST_F(HostsOnNodes, OneCommandIsOneJob) {
  if (!make_nodes(3)) GTEST_SKIP() << why_not();
  auto job = launch_from_node0({"--hosts=node0,node1:2,node2",
                                "--grace=2s",
                                DDP_FAKE_WORKER,
                                "print",
                                "started",
                                "wait",
                                "TERM"});
  ASSERT_TRUE(eventually(
      [&] {
        job->read_for(10ms);
        return count(job->out(), "started\n") == 4;
      },
      kTestTimeout))
      << job->out() << job->err();
  for (const char* const line :
       {"[0:0] started", "[1:1] started", "[1:2] started", "[2:3] started"})
    EXPECT_THAT(job->out(), HasSubstr(line));
  send_signal(worker(3), SIGKILL);
  EXPECT_EQ(job->wait(), 137) << job->err();
  EXPECT_EQ(count(job->err(), "Root Cause"), 1U) << job->err();  // once, though all agents know it
}

TEST_F(HostsOnNodes, AHostThatIsNotThereEndsTheOnesThatWaitForIt) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  auto job = launch_from_node0({"--hosts=node0,node1,gone", DDP_FAKE_WORKER});
  EXPECT_EQ(job->wait(), 202) << job->err();
  EXPECT_THAT(job->err(), HasSubstr("host gone: ssh failed: exit code 255, gone is not known\n"));
  EXPECT_LT(job->lived(), allowed(10s));
}

TEST_F(HostsOnNodes, WorkersEndWhenTheStarterIsKilled) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  auto job = launch_from_node0(
      {"--hosts=node0,node1", "--grace=2s", DDP_FAKE_WORKER, "print", "started", "wait", "TERM"});
  ASSERT_TRUE(eventually(
      [&] {
        job->read_for(10ms);
        return count(job->out(), "started\n") == 2;
      },
      kTestTimeout))
      << job->out() << job->err();
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  EXPECT_TRUE(nothing_lives_within(5s));
}

TEST_F(HostsOnNodes, DoctorLooksAtThemAll) {
  if (!make_nodes(2)) GTEST_SKIP() << why_not();
  auto doctor = launch_from_node0({"doctor", "--hosts=node0,node1"});
  EXPECT_EQ(doctor->wait(), 0) << doctor->out() << doctor->err();
  EXPECT_EQ(count(doctor->out(), "no problem found"), 1U) << doctor->out();  // once
  EXPECT_EQ(count(doctor->out(), "1 of 1"), 2U) << doctor->out();
  EXPECT_THAT(doctor->err(), Not(HasSubstr("has no token")));
}

/// sshd on a free port of this machine, for the user who runs the test.
class HostsBySshd : public ProcessTest {
 protected:
  void SetUp() override {
    for (const char* const program : {kSshd, "/usr/bin/ssh", "/usr/bin/ssh-keygen"}) {
      if (std::filesystem::exists(program)) continue;
      GTEST_SKIP() << "there is no " << program << ": install openssh-server and openssh-client";
    }
    // sshd refuses to run as root without it.
    if (::geteuid() == 0) std::filesystem::create_directories("/run/sshd");
    for (const char* const name : {"host_key", "user_key"}) {
      auto keygen = start({{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path(name)}});
      ASSERT_EQ(keygen->wait(), 0) << keygen->err();
    }
    const std::string port = free_port();
    const std::string config =
        write_file("sshd_config",
                   "ListenAddress 127.0.0.1\nPort " + port + "\nHostKey " + path("host_key") +
                       "\nAuthorizedKeysFile " + path("user_key.pub") +
                       "\nStrictModes no\nUsePAM no\nPidFile none\n"
                       "PermitRootLogin yes\n");
    sshd_ = start({{kSshd, "-D", "-e", "-f", config}});
    ASSERT_TRUE(sshd_->sees("Server listening on")) << sshd_->err();
    ssh_ = "ssh -F none -p " + port + " -i " + path("user_key") +
           " -oStrictHostKeyChecking=no -oUserKnownHostsFile=/dev/null -oLogLevel=ERROR";
  }

  std::unique_ptr<Running> launch_there(std::vector<std::string> words) {
    words.insert(words.begin(), {"--hosts", "127.0.0.1", "--ssh", ssh_, "--grace=60s"});
    return launch(words);
  }

  static std::string free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    ::close(fd);
    return std::to_string(ntohs(address.sin_port));
  }

  static constexpr const char* kSshd = "/usr/sbin/sshd";
  std::unique_ptr<Running> sshd_;
  std::string ssh_;

 private:
  [[nodiscard]] std::string path(const std::string& name) const { return scratch() / name; }
};

TEST_F(HostsBySshd, WordsAndCodesArriveAsTheyWere) {
  auto job = launch_there({DDP_FAKE_WORKER, "print", "it's \"$HOME\" & `x`; *", "exit", "7"});
  EXPECT_EQ(job->wait(), 7) << job->err() << sshd_->err();
  EXPECT_THAT(job->out(), HasSubstr("it's \"$HOME\" & `x`; *\n"));
}

TEST_F(HostsBySshd, TwoAgentsAreOneJob) {
  // The last of a repeated flag wins.
  auto job = launch_there({"--hosts=127.0.0.1,localhost:2",
                           "--master-addr=127.0.0.1",
                           "--master-port=" + free_port(),
                           DDP_FAKE_WORKER,
                           "print",
                           "hello"});
  EXPECT_EQ(job->wait(), 0) << job->err() << sshd_->err();
  for (const char* const line : {"[0:0] hello", "[1:1] hello", "[1:2] hello"})
    EXPECT_THAT(job->out(), HasSubstr(line));
}

TEST_F(HostsBySshd, WorkersEndWhenTheStarterIsKilled) {
  auto job = launch_there({DDP_FAKE_WORKER, "print", "started", "wait", "TERM"});
  ASSERT_TRUE(job->sees("started")) << job->err() << sshd_->err();
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait(), -SIGKILL);
  const auto only_sshd_lives = [&] {
    const std::vector<std::string> left = alive();
    return std::none_of(left.begin(), left.end(), [](const std::string& process) {
      return process.find("fake_worker") != std::string::npos;
    });
  };
  EXPECT_TRUE(eventually(only_sshd_lives, 5s)) << testing::PrintToString(alive());
}

TEST_F(HostsBySshd, TwoSignalsReachTheAgent) {
  auto job = launch_there({DDP_FAKE_WORKER, "ignore", "TERM", "print", "started", "sleep", "100"});
  ASSERT_TRUE(job->sees("started")) << job->err() << sshd_->err();
  job->signal(SIGINT);
  ASSERT_TRUE(job->sees("SIGTERM")) << job->err();
  job->read_for(150ms);  // within 100 ms it is the same request
  job->signal(SIGINT);
  EXPECT_EQ(job->wait(), 143) << job->err();
}

TEST_F(HostsBySshd, AKeyThatIsNotKnownThereIsSshsFailure) {
  std::filesystem::remove(scratch() / "user_key.pub");
  auto job = launch_there({DDP_FAKE_WORKER, "exit", "0"});
  EXPECT_EQ(job->wait(), 202) << job->err();
  EXPECT_THAT(job->err(), HasSubstr("host 127.0.0.1: ssh failed: exit code 255, "));
  EXPECT_THAT(job->err(), HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace ddp::test
