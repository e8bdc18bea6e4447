#include "launcher/plan/hosts/ssh_command.h"

#include <gmock/gmock.h>

#include "common/error.h"
#include "launcher/plan/command_line/flags.h"

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

SshPlan plan_of(const std::string& hosts, const Words& typed) {
  SshPlan plan;
  plan.hosts = parse_hosts(hosts);
  plan.typed = split_arguments(typed, flags());
  plan.program = "/opt/ddp-launch";
  plan.directory = "/work dir";
  return plan;
}

std::string plan_problems(const SshPlan& plan) {
  try {
    check_ssh_plan(plan);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(SshCommand, EachHostIsToldItsPlace) {
  const SshPlan plan = plan_of("a,u@b:4", {"--max-restarts=2", "train.py", "--lr", "0.1"});
  EXPECT_EQ(plan_problems(plan), "");
  EXPECT_EQ(ssh_command(plan, 0).back(),
            "cd '/work dir' && exec env /opt/ddp-launch --max-restarts=2 --nnodes=2 --node-rank=0 "
            "--master-addr=a --token-stdin -- train.py -- --lr 0.1");
  EXPECT_EQ(ssh_command(plan, 1).back(),
            "cd '/work dir' && exec env /opt/ddp-launch --max-restarts=2 --nnodes=2 --node-rank=1 "
            "--master-addr=a --nproc-per-node=4 --token-stdin -- train.py -- --lr 0.1");
  const Words words = ssh_command(plan, 1);
  EXPECT_EQ(words.front(), "ssh");
  EXPECT_EQ(words[words.size() - 2], "u@b");
  EXPECT_THAT(words, testing::Contains("-oBatchMode=yes"));
}

TEST(SshCommand, TheRemoteShellReadsBackWhatWasTyped) {
  const Words rest{"-odd", "--", "--nnodes=7", "a b", ""};
  SshPlan plan = plan_of("a,b", {"--hosts=a,b", "--nproc-per-node=2", "--", "-odd", "--", "--"});
  plan.typed.rest = rest;
  std::string remote = ssh_command(plan, 1).back();
  EXPECT_THAT(remote, Not(HasSubstr("--hosts")));
  const Words agent{"--nproc-per-node=2",
                    "--nnodes=2",
                    "--node-rank=1",
                    "--master-addr=a",
                    "--token-stdin",
                    "--",
                    "-odd",
                    "--",
                    "--",
                    "--nnodes=7",
                    "a b",
                    ""};
  for (const std::string& word : agent)
    EXPECT_THAT(remote, HasSubstr(quote_for_shell(word)));
  const SplitArguments there = split_arguments(agent, flags());
  EXPECT_EQ(there.rest, rest);
}

TEST(SshCommand, TheUsersAddressAndPortStand) {
  const SshPlan plan = plan_of("a,b:4", {"--master-addr=10.0.0.1", "--nproc-per-node=2", "p"});
  EXPECT_THAT(ssh_command(plan, 0).back(), HasSubstr("--nproc-per-node=2"));
  EXPECT_THAT(ssh_command(plan, 1).back(), Not(HasSubstr("--nproc-per-node=2")));
  EXPECT_THAT(ssh_command(plan, 1).back(), HasSubstr("--master-addr=10.0.0.1"));
  EXPECT_THAT(ssh_command(plan, 1).back(), Not(HasSubstr("--master-addr=a")));
}

TEST(SshCommand, OneHostNeedsNoAddress) {
  EXPECT_THAT(ssh_command(plan_of("localhost", {"p"}), 0).back(), Not(HasSubstr("--master-addr")));
}

TEST(SshCommand, ACommandStaysBeforeItsFlags) {
  SshPlan plan = plan_of("a,b", {"--master-port=1"});
  plan.typed.rest = {"doctor"};
  EXPECT_THAT(ssh_command(plan, 0).back(),
              testing::EndsWith("/opt/ddp-launch doctor --master-port=1 --nnodes=2 --node-rank=0 "
                                "--master-addr=a --token-stdin"));
}

TEST(SshCommand, TheVariablesOfAJobGoWithItAndNoSecret) {
  SshPlan plan = plan_of("a", {"p"});
  plan.environment = {{"PET_TEE", "3"},
                      {"DDP_X", "it's"},
                      {"DDP_TOKEN", "secret"},
                      {"DDP_RUN_ID", "outer"},
                      {"PET_NODE_RANK", "5"},
                      {"HOME", "/h"},
                      {"NCCL_DEBUG", "INFO"}};
  const std::string remote = ssh_command(plan, 0).back();
  EXPECT_THAT(remote, HasSubstr(" env 'DDP_X=it'\\''s' NCCL_DEBUG=INFO PET_TEE=3 /opt/ddp-launch"));
  for (const char* const word : {"secret", "outer", "PET_NODE_RANK", "HOME"})
    EXPECT_THAT(remote, Not(HasSubstr(word)));
}

TEST(SshCommand, SshMayHaveOptionsOfItsOwn) {
  SshPlan plan = plan_of("a", {"p"});
  plan.ssh = "ssh -p  2222";
  const Words words = ssh_command(plan, 0);
  EXPECT_THAT(Words(words.begin(), words.begin() + 4), ElementsAre("ssh", "-p", "2222", "-T"));
  plan.ssh = " ";
  EXPECT_THAT(plan_problems(plan), HasSubstr("--ssh: no program"));
}

TEST(SshCommand, FlagsThatSayOtherwiseAreRefused) {
  const std::string problems = plan_problems(
      plan_of("a,b", {"--nnodes=3", "--node-rank=1", "--standalone", "--rdzv-endpoint=c", "p"}));
  EXPECT_THAT(problems, HasSubstr("--nnodes says 3, the list of hosts names 2"));
  for (const char* const flag : {"--node-rank", "--standalone", "--rdzv-endpoint"})
    EXPECT_THAT(problems, HasSubstr(flag));
  EXPECT_THAT(plan_problems(plan_of("a,b", {"--debug=0", "p"})),
              HasSubstr("--debug: with --hosts, no rank can have this terminal"));
  EXPECT_EQ(plan_problems(plan_of("a,b", {"--nnodes=2", "p"})), "");
  EXPECT_EQ(plan_problems(plan_of("a,b", {"--nnodes=2:2", "p"})), "");
}

TEST(SshCommand, AFirstHostThatIsItselfEverywhereIsRefused) {
  for (const char* const name : {"localhost", "127.0.0.1", "[::1]"})
    EXPECT_THAT(plan_problems(plan_of(name + std::string(",b"), {"p"})), HasSubstr("cannot reach"));
  EXPECT_EQ(plan_problems(plan_of("localhost,b", {"--master-addr=a", "p"})), "");
  EXPECT_EQ(plan_problems(plan_of("localhost", {"p"})), "");
}

TEST(SshCommand, AShellReadsWhatWasMeant) {
  EXPECT_EQ(quote_for_shell("a=b,c:1"), "a=b,c:1");
  EXPECT_EQ(quote_for_shell(""), "''");
  EXPECT_EQ(quote_for_shell("a b"), "'a b'");
  EXPECT_EQ(quote_for_shell("it's"), "'it'\\''s'");
  EXPECT_EQ(quote_for_shell("$HOME;*?~"), "'$HOME;*?~'");
}

}  // namespace
}  // namespace ddp::launcher
