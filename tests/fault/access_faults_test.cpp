// Others at the port of a job: another user of this machine, played as nobody, and somebody between
// two agents. Rows A3 to A5 of CASES.md.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <iostream>
#include <utility>
#include <vector>

#include "launcher/plan/round/messages.h"
#include "launcher/plan/wire/frames.h"
#include "tests/support/fake_node.h"
#include "tests/support/other_user.h"
#include "tests/support/process_test.h"
#include "tests/support/store_client.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using launcher::kProtocolVersion;
using testing::HasSubstr;
using testing::Not;

const std::string kToken(64, 't');
const std::string kValidate("\0\xce\xf7\x85\x3c", 5);
const std::string kSet("\x01"), kListKeys("\x11");

/// Takes as many descriptors as it may have.
void raise_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Connected to that port of the loopback; -1: it is not there.
int connect_to(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

class AccessFaults : public ProcessTest {
 protected:
  [[nodiscard]] Command agent(int rank, int port, const std::string& token) const {
    return {.arguments = {DDP_LAUNCH,
                          "--nnodes=2",
                          "--node-rank=" + std::to_string(rank),
                          "--master-addr=127.0.0.1",
                          "--master-port=" + std::to_string(port),
                          "--nproc-per-node=1",
                          "--grace=2s"},
            .environment = {{"DDP_TOKEN", token}}};
  }
  /// An agent of a job of two nodes, with one worker that does `verbs`.
  std::unique_ptr<Running> launch_agent(int rank,
                                        int port,
                                        const std::string& token,
                                        const std::vector<std::string>& flags = {}) {
    Command command = agent(rank, port, token);
    command.arguments.insert(command.arguments.end(), flags.begin(), flags.end());
    for (const char* const word : {"--no-python", DDP_FAKE_WORKER, "print", "ready", "hold"})
      command.arguments.emplace_back(word);
    return start(command);
  }
  static void stop(Running& zero, Running& one) {
    zero.signal(SIGTERM);
    EXPECT_EQ(zero.wait(), 143) << zero.err();
    EXPECT_EQ(one.wait(), 143) << one.err();
  }
};

// --- A3: the store.

TEST_F(AccessFaults, A3_AnotherUserNeitherReadsNorWritesTheStore) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  const auto job = launch_fakes(1, "print ready hold", {"--verbose", "--no-python"});
  ASSERT_TRUE(job->sees("ready"));
  const int port = job->number_after("endpoint: 127.0.0.1:");
  StoreClient own(port);
  own.set("secret", "address of gloo");
  const int read = as_other_user([&] {
    StoreClient other(port, false);
    other.send(kValidate + kListKeys);
    return other.receive(1, 5s).empty() ? 0 : 1;
  });
  EXPECT_EQ(read, 0) << "the store has answered another user";
  const int written = as_other_user([&] {
    StoreClient other(port, false);
    other.send(kValidate + kSet + text("secret") + text("forged"));
    return other.is_closed_within(5s) ? 0 : 1;
  });
  EXPECT_EQ(written, 0) << "another user's connection was kept";
  // It closes before anybody can see whose it was: what it has said does not count.
  for (int i = 0; i < 20; ++i) {
    as_other_user([&] {
      StoreClient other(port, false);
      other.send(kValidate + kSet + text("secret") + text("forged"));
      return 0;
    });
  }
  EXPECT_EQ(own.get("secret"), "address of gloo");
  EXPECT_TRUE(
      job->sees("a process of user 65534 (nobody) tried to use this job's store; it was "
                "turned away"));
  EXPECT_EQ(count(job->err(), "turned away"), 1U) << job->err();
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait(), 143) << job->err();
}

TEST_F(AccessFaults, A3_NorDoTheyInAJobWithATokenByAnyLocalAddress) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  const int port = free_port();
  const auto zero = launch_agent(0, port, kToken);
  const auto one = launch_agent(1, port, kToken);
  ASSERT_TRUE(zero->sees("ready") && one->sees("ready"));
  StoreClient own(port);
  own.set("secret", "address of gloo");
  const int served = as_other_user([&] {
    StoreClient other(port, false);
    other.send(kValidate + kSet + text("secret") + text("forged"));
    return other.is_closed_within(5s) ? 0 : 1;
  });
  EXPECT_EQ(served, 0) << "another user's connection was kept";
  EXPECT_EQ(own.get("secret"), "address of gloo");
  stop(*zero, *one);
}

/// Many connections at once, then a PING over each. In bash: Python may lie where only root reads.
const char* const kAskStore =
    "for i in {1..100}; do exec {fd}<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT; all+=($fd); done\n"
    "for fd in ${all[@]}; do printf '\\0\\xce\\xf7\\x85\\x3c\\x0dping' >&$fd\n"
    "IFS= read -r -N 4 -t 10 -u $fd answer; [[ $answer == ping ]] && served+=x; done\n"
    "echo served ${#served} as $EUID";

TEST_F(AccessFaults, A3_WorkersThatRunAsAnotherUserAreServed) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  const std::vector<std::string> as_nobody{
      "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  for (const bool has_session : {false, true}) {
    std::vector<std::string> words{"--nproc-per-node=2", "--no-python"};
    // In a session of its own, as a child: only the line of parents leads to it.
    if (has_session) words.insert(words.end(), {"setsid", "--fork", "--wait"});
    words.insert(words.end(), as_nobody.begin(), as_nobody.end());
    words.insert(words.end(), {"/bin/bash", "-c", kAskStore});
    const auto job = launch(words);
    EXPECT_EQ(job->wait(), 0) << job->err();
    EXPECT_EQ(count(job->out(), "served 100 as 65534"), 2U) << job->out() << job->err();
  }
}

// One that changes its user by itself is shown as root's in /proc.
TEST_F(AccessFaults, A3_WorkersThatChangeTheirUserAreServed) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  const auto job =
      launch({"--no-python",
              "python3",
              "-c",
              "import os, socket\n"
              "os.setresuid(65534, 65534, 65534)\n"
              "at = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])\n"
              "peer = socket.socket()\n"
              "peer.connect(at)\n"
              "peer.sendall(b'\\0\\xce\\xf7\\x85\\x3c\\x0dping')\n"
              "print('served', peer.recv(4).decode(), 'as', os.geteuid(), flush=True)"});
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), HasSubstr("served ping as 65534"));
}

// --- A4: places at the port.

/// Holds `most` connections, each of which has said `words`, and opens a new one for each that is
/// closed, for ever. Says one byte on `ready` when it has as many, or has opened twice as many.
int flood(int port, const std::string& words, std::size_t most, int ready) {
  raise_limit();
  std::vector<pollfd> held;
  std::size_t opened = 0;
  bool has_said = false;
  while (true) {
    for (int i = 0; i < 64 && held.size() < most; ++i) {
      const int fd = connect_to(port);
      if (fd < 0) return 1;
      ::send(fd, words.data(), words.size(), MSG_NOSIGNAL);
      held.push_back(pollfd{fd, POLLRDHUP, 0});
      ++opened;
    }
    const bool is_full = held.size() == most || opened >= 2 * most;
    if (is_full && !std::exchange(has_said, true) && ::write(ready, "x", 1) != 1) return 1;
    ::poll(held.data(), held.size(), 1);  // others are to have a processor, too
    std::erase_if(held, [](const pollfd& connection) {
      if (connection.revents != 0) ::close(connection.fd);
      return connection.revents != 0;
    });
  }
}

struct Hostile {
  const char* what;
  std::string words;
};

class Flood : public AccessFaults, public testing::WithParamInterface<bool> {
 protected:
  static constexpr std::size_t kHeld = 1200;

  void expect_join_beside(const Hostile& hostile) {
    const std::string token = GetParam() ? kToken : "";
    const int port = free_port();
    const auto zero = launch_agent(0, port, token);
    ASSERT_TRUE(eventually(
        [&] {
          const int fd = connect_to(port);
          if (fd >= 0) ::close(fd);
          return fd >= 0;
        },
        kTestTimeout));
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
    const OtherUser other([&] { return flood(port, hostile.words, kHeld, ready[1]); });
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    const auto begin = std::chrono::steady_clock::now();
    const auto one = launch_agent(1, port, token);
    const bool has_joined = one->sees("(node 0) at 127.0.0.1", 10s);
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_TRUE(has_joined) << one->err() << zero->err();
    std::cout << hostile.what << (token.empty() ? "" : ", token") << ": joined after "
              << std::chrono::duration_cast<std::chrono::milliseconds>(took).count() << " ms; "
              << count_descriptors(zero->pid()) << " descriptors and "
              << status_number(zero->pid(), "VmRSS") << " KiB of node 0\n";
    if (!kInstrumented) {
      EXPECT_LT(took, 1s) << hostile.what;
      EXPECT_LT(status_number(zero->pid(), "VmRSS"), 24U << 10);
    }
    EXPECT_LT(count_descriptors(zero->pid()), 300U);
    EXPECT_TRUE(zero->sees("ready") && one->sees("ready"));
    ::close(ready[0]);
    ::close(ready[1]);
    stop(*zero, *one);
  }
};

TEST_P(Flood, A4_SilentOnesKeepNobodyOut) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  expect_join_beside({"silent", ""});
}
TEST_P(Flood, A4_AgentsOfOneByteKeepNobodyOut) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  expect_join_beside({"an agent's first byte", "\xdd"});
}
TEST_P(Flood, A4_ClientsOfOneByteKeepNobodyOut) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  expect_join_beside({"a client's first byte", std::string(1, '\0')});
}
TEST_P(Flood, A4_OpeningsWithoutMoreKeepNobodyOut) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  expect_join_beside({"an opening", launcher::to_bytes({kProtocolVersion, GetParam()})});
}
TEST_P(Flood, A4_OpeningsWithANumberKeepNobodyOut) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  expect_join_beside({"an opening and a number",
                      launcher::to_bytes({kProtocolVersion, GetParam()}) +
                          launcher::frame_head(32) + std::string(32, 'n')});
}
TEST_P(Flood, A4_ClientsThatValidateKeepNobodyOut) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  expect_join_beside({"VALIDATE", kValidate});
}

INSTANTIATE_TEST_SUITE_P(, Flood, testing::Bool(), [](const auto& chosen) {
  return std::string(chosen.param ? "WithToken" : "WithoutToken");
});

// --- A5: what agents tell each other.

struct Change {
  std::string from;
  std::string to;  // of the same length
};

/// Hands on what comes to `listener` to `port` and back, and puts other words in the place of some.
int relay(int listener, int port, const std::vector<Change>& changes, bool flips_late_bit) {
  while (true) {
    const int node = ::accept(listener, nullptr, nullptr);
    const int zero = connect_to(port);
    if (node < 0) return 1;
    if (zero < 0) {  // it is not there yet; the node comes again
      ::close(node);
      continue;
    }
    std::array<pollfd, 2> ends{pollfd{node, POLLIN, 0}, pollfd{zero, POLLIN, 0}};
    std::size_t from_zero = 0;
    for (bool is_open = true; is_open && ::poll(ends.data(), 2, -1) > 0;) {
      for (std::size_t i = 0; i < 2 && is_open; ++i) {
        if (ends[i].revents == 0) continue;
        std::string bytes(65536, '\0');
        const ssize_t size = ::recv(ends[i].fd, bytes.data(), bytes.size(), 0);
        is_open = size > 0;
        if (!is_open) break;
        bytes.resize(static_cast<std::size_t>(size));
        for (const Change& change : changes) {
          for (std::size_t at = bytes.find(change.from); at != std::string::npos;
               at = bytes.find(change.from))
            bytes.replace(at, change.from.size(), change.to);
        }
        if (i == 1) from_zero += bytes.size();
        if (i == 1 && flips_late_bit && from_zero > 600)
          bytes.back() = static_cast<char>(bytes.back() ^ 1);
        ::send(ends[1 - i].fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      }
    }
    ::close(node);
    ::close(zero);
  }
}

class Relayed : public AccessFaults {
 protected:
  /// Both agents, with somebody between them who does that; node 0's run directory is in `mine`.
  void launch_both(const std::string& token, bool flips_late_bit) {
    mine_ = scratch() / "mine";
    evil_ = scratch() / "evil";
    std::filesystem::create_directories(mine_);
    std::filesystem::create_directories(evil_);
    const int port = free_port();
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(::bind(listener, generic, size), 0);
    ASSERT_EQ(::listen(listener, 10), 0);
    ::getsockname(listener, generic, &size);
    const std::vector<Change> changes{{"/mine/", "/evil/"}};
    relay_ =
        std::make_unique<OtherUser>([=] { return relay(listener, port, changes, flips_late_bit); });
    ::close(listener);
    const std::string output = "--output=" + mine_.string();
    zero_ = launch_agent(0, port, token, {output});
    one_ = launch_agent(1, ntohs(address.sin_port), token, {output});
  }
  /// What was written there.
  static bool has_logs(const std::filesystem::path& directory) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
      if (entry.path().filename() == "logs") return true;
    return false;
  }

  std::filesystem::path mine_;
  std::filesystem::path evil_;
  std::unique_ptr<OtherUser> relay_;
  std::unique_ptr<Running> zero_;
  std::unique_ptr<Running> one_;
};

TEST_F(Relayed, A5_WithATokenNobodyOnTheWayChoosesWhereANodeLogs) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  launch_both(kToken, false);
  ASSERT_TRUE(zero_->sees("ready") && one_->sees("ready")) << one_->err();
  EXPECT_FALSE(has_logs(evil_));
  EXPECT_TRUE(has_logs(mine_));
  stop(*zero_, *one_);
}

TEST_F(Relayed, A5_AFrameThatIsAlteredEndsTheJobAndSaysSo) {
  if (!can_be_other_user()) GTEST_SKIP() << "not root";
  launch_both(kToken, true);
  EXPECT_EQ(one_->wait(), 201) << one_->err();
  EXPECT_THAT(one_->err(), HasSubstr("a frame was altered on its way, or is not of this job"));
  zero_->signal(SIGTERM);
  zero_->wait();
}

// Of a node whose own command names no directory, nobody decides whether it writes files.
TEST_F(AccessFaults, A5_ARunDirectoryIsOfANodeThatAskedForOne) {
  const int port = free_port();
  const auto zero = launch_agent(0, port, "", {"--output=" + (scratch() / "runs").string()});
  const auto one = launch_agent(1, port, "");
  ASSERT_TRUE(zero->sees("ready") && one->sees("ready"));
  EXPECT_TRUE(one->sees("it is not used"));
  EXPECT_THAT(zero->err(), Not(HasSubstr("it is not used")));
  stop(*zero, *one);
}

}  // namespace
}  // namespace ddp::test
