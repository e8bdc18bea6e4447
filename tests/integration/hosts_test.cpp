// --hosts: agents on other hosts, started by ssh. A stand-in for ssh runs here what it is told to
// run there, in a session of its own and with no more environment than a login has; so what is
// tested is all but the way to the other host. The last test takes that way, with a real sshd.
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/support/process_test.h"

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
        kPatience);
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
  EXPECT_THAT(job->err(), HasSubstr(ssh_ + " -oBatchMode=yes gone " DDP_LAUNCH " --version"));
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
    if (process.find(" killed cd ") != std::string::npos) ::kill(std::stoi(process), SIGKILL);
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
  ASSERT_TRUE(eventually(
      [&] { return job->sees("SIGTERM", 10ms) && count(job->err(), "SIGTERM") >= 2; }, kPatience))
      << job->err();
  job->read_for(150ms);  // within 100 ms it is the same press
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143) << job->err();
  EXPECT_LT(job->lived(), 20s);
}

TEST_F(Hosts, NothingOutlivesAKilledStarter) {
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

TEST_F(Hosts, WhatIsWrongIsSaidOnceAndNothingStarts) {
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
  auto agent = start({{"sh", "-c", "exec " DDP_LAUNCH " --token-stdin true </dev/null"}});
  EXPECT_EQ(agent->wait(), 2) << agent->err();
  EXPECT_THAT(agent->err(), HasSubstr("no line with a token"));
}

}  // namespace
}  // namespace ddp::test
