// Bytes, silence and numbers that harm the store of a job, and its port. Rows C9 to C11, N10 and
// N12 of CASES.md.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/process_test.h"
#include "tests/support/store_client.h"

namespace ddp::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::MatchesRegex;

/// Commands of the protocol.
const std::string kSet("\x01"), kGet("\x03"), kCheck("\x05"), kWait("\x06"), kMultiGet("\x0a"),
    kMultiSet("\x0b");

class StoreFaults : public ProcessTest {
 protected:
  /// Two fake workers that live until they get SIGUSR1, and the port of their store.
  void start_job() {
    job_ = launch({"--verbose",
                   "--nproc-per-node",
                   "2",
                   "--grace",
                   "2s",
                   "--no-python",
                   DDP_FAKE_WORKER,
                   "print",
                   "ready",
                   "hold"});
    ASSERT_TRUE(job_->sees("[0:0] ready") && job_->sees("[0:1] ready"));
    port_ = job_->number_after("endpoint: 127.0.0.1:");
    ASSERT_GT(port_, 0);
  }
  void TearDown() override {
    if (job_) {
      job_->signal(SIGTERM);
      EXPECT_EQ(job_->wait(), 143) << job_->err();
    }
    ProcessTest::TearDown();
  }

  [[nodiscard]] std::size_t resident_kilobytes() const {
    std::ifstream statm("/proc/" + std::to_string(job_->pid()) + "/statm");
    std::size_t size = 0, resident = 0;
    statm >> size >> resident;
    return resident * static_cast<std::size_t>(::getpagesize()) / 1024;
  }

  /// The store answers `client`, which was there before.
  void expect_served(StoreClient& client) {
    client.set("still", "here");
    EXPECT_EQ(client.get("still"), "here");
  }

  std::unique_ptr<Running> job_;
  int port_ = 0;
};

// Case C9: garbage, HTTP, TLS hello, port scan.
TEST_F(StoreFaults, C9_ForeignBytesAreDroppedBeforeAnythingIsAllocated) {
  start_job();
  StoreClient good(port_);
  const std::size_t before = resident_kilobytes();
  for (int i = 0; i < 300; ++i) {
    for (const std::string bytes : {"GET / HTTP/1.1\r\n\r\n",
                                    "\x16\x03\x01\x02",
                                    "\xff\xff\xff\xff\xff\xff",
                                    "SSH-2.0-x\r\n"}) {
      StoreClient peer(port_, false);
      peer.send(bytes);
      ASSERT_TRUE(peer.is_closed_within());
    }
    const StoreClient scanner(port_, false);  // says nothing and leaves
  }
  expect_served(good);
  if (!kInstrumented) {
    EXPECT_LT(resident_kilobytes(), before + 512);
  }
}

// Case C9, of the store itself: what follows a good opening is nonsense.
TEST_F(StoreFaults, C9_AClientThatSendsNonsenseIsDisconnectedAlone) {
  start_job();
  StoreClient good(port_);
  StoreClient bad(port_, true, 4242);
  bad.send(std::string(1000, '\xee'));
  EXPECT_TRUE(bad.is_closed_within());
  EXPECT_TRUE(job_->sees("a client of the store (pid 4242) was disconnected"));
  StoreClient word(port_);
  word.set("word", "abc");
  word.send("\x04" + text("word") + u64(1));  // ADD
  EXPECT_TRUE(word.is_closed_within());
  expect_served(good);
}

// Case C10: half a frame, then silence.
TEST_F(StoreFaults, C10_SilenceBeforeTheOpeningIsClosedAfterFiveSeconds) {
  start_job();
  StoreClient good(port_);
  StoreClient silent(port_, false);
  StoreClient half(port_, false);
  half.send(std::string("\0\xce\xf7", 3));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(silent.is_closed_within(6s));
  EXPECT_TRUE(half.is_closed_within(1s));
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 4s);
  expect_served(good);  // it is silent for as long as it likes
}

// Case C10: half a request, then silence, harms nobody and takes no memory.
TEST_F(StoreFaults, C10_HalfARequestStaysAlone) {
  start_job();
  StoreClient good(port_);
  const std::size_t before = resident_kilobytes();
  std::vector<StoreClient> halves;
  for (int i = 0; i < 100; ++i) {
    halves.emplace_back(port_);
    halves.back().send(kSet + text("key") + u64(8 << 20) + "begin");
    halves.emplace_back(port_);
    halves.back().send(kMultiSet + u64(131072) + text("k"));
    expect_served(good);
  }
  // Of the gigabyte that is announced. A sanitizer has a shadow of each byte.
  EXPECT_LT(resident_kilobytes(), before + (kInstrumented ? 16384 : 2048));
}

// Case C10: 1,000 idle sockets.
TEST_F(StoreFaults, C10_IdleSocketsKeepNobodyOut) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  start_job();
  StoreClient good(port_);
  std::vector<StoreClient> idle;
  for (int i = 0; i < 1500; ++i)
    idle.emplace_back(port_, false);
  StoreClient late(port_);  // above the number of connections: the oldest idle one has gone
  expect_served(late);
  expect_served(good);
  EXPECT_TRUE(idle.front().is_closed_within(1s));
  EXPECT_TRUE(idle.back().is_closed_within(6s));
  if (!kInstrumented) {
    EXPECT_LT(resident_kilobytes(), 16U << 10);
  }
}

// Case C11: lengths that no honest client sends.
TEST_F(StoreFaults, C11_AHugeLengthClosesOneConnection) {
  start_job();
  StoreClient good(port_);
  const std::size_t before = resident_kilobytes();
  const std::vector<std::string> requests = {kSet + u64(1ULL << 62),
                                             kSet + u64(~0ULL),
                                             kSet + text("k") + u64(1 << 31),
                                             kSet + text("k") + u64((8 << 20) + 1),
                                             kGet + u64(8193),
                                             kWait + u64(131073),
                                             kMultiGet + u64(0xffffffff),
                                             kCheck + u64(1ULL << 63),
                                             kMultiSet + u64(1) + u64(1 << 30)};
  for (const std::string& request : requests) {
    StoreClient bad(port_);
    bad.send(request);
    EXPECT_TRUE(bad.is_closed_within()) << testing::PrintToString(request);
    expect_served(good);
  }
  if (!kInstrumented) {
    EXPECT_LT(resident_kilobytes(), before + 512);
  }
}

TEST_F(StoreFaults, AClientThatReadsNothingHoldsBackOnlyItself) {
  start_job();
  StoreClient good(port_);
  const std::string value(8 << 20, 'v');
  good.set("big", value);
  EXPECT_EQ(good.get("big"), value);
  const std::size_t before = resident_kilobytes();
  StoreClient stalled(port_);
  std::string requests;
  for (int i = 0; i < 1000; ++i)
    requests += kGet + text("big");  // 8 GB of replies
  stalled.send(requests);
  StoreClient other(port_);
  expect_served(other);
  expect_served(good);
  EXPECT_LT(resident_kilobytes(), before + ((kInstrumented ? 128 : 64) << 10));
  // It gets what it has asked for as soon as it reads.
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(stalled.receive(8 + value.size()), text(value));
}

TEST_F(StoreFaults, AThousandClientsAreServedAtOnce) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  start_job();
  std::vector<StoreClient> clients;
  for (std::uint32_t i = 0; i < 1000; ++i)
    clients.emplace_back(port_, true, i + 1);
  for (StoreClient& client : clients)
    client.send(kWait + u64(1) + text("go"));
  clients[0].send("\x0c");  // CANCEL_WAIT
  EXPECT_EQ(clients[0].receive(1), "\x01");
  clients[0].set("go", "");
  for (std::size_t i = 1; i < clients.size(); ++i)
    ASSERT_EQ(clients[i].receive(1), std::string(1, '\0')) << i;
  if (!kInstrumented) {
    EXPECT_LT(resident_kilobytes(), 24U << 10);
  }
}

TEST_F(StoreFaults, AClientOfTorch1IsToldFromAnUnknownPeerAndTheFlagIsNamed) {
  start_job();
  for (int i = 0; i < 2; ++i) {
    StoreClient old(port_, false);
    old.send("\x03" + text("init/") + u64(1));  // ADD was 3
    EXPECT_TRUE(old.is_closed_within());
  }
  ASSERT_TRUE(job_->sees("--store worker"));
  const std::string& text = job_->err();
  EXPECT_EQ(text.find("--store worker"), text.rfind("--store worker")) << text;  // once
}

// A rank that never comes: it is named once another has joined.
TEST_F(StoreFaults, ARankThatDoesNotJoinIsNamed) {
  job_ = launch({"--verbose",
                 "--nproc-per-node",
                 "2",
                 "--no-python",
                 DDP_FAKE_WORKER,
                 "on",
                 "0",
                 "[",
                 "pid",
                 "]",
                 "print",
                 "ready",
                 "hold"});
  ASSERT_TRUE(job_->sees("[0:0] ready") && job_->sees("[0:1] ready"));
  const int port = job_->number_after("endpoint: 127.0.0.1:");
  const int first = job_->number_after("rank 0: pid ");
  const int second = job_->number_after("rank 1: pid ");
  const StoreClient client(port, true, static_cast<std::uint32_t>(first));
  ASSERT_TRUE(job_->sees("1 of 2 ranks have joined the store; still to come: rank 1 (pid " +
                         std::to_string(second) + ")"))
      << job_->err();
}

TEST_F(StoreFaults, ARestartBeginsAnEmptyStoreOnTheSamePort) {
  job_ = launch({"--verbose",
                 "--max-restarts",
                 "1",
                 "--no-python",
                 DDP_FAKE_WORKER,
                 "pid",
                 "environment",
                 "hold"});
  ASSERT_TRUE(job_->sees("TORCHELASTIC_RESTART_COUNT=0") && job_->sees("WORLD_SIZE=1"));
  const int port = job_->number_after("MASTER_PORT=");
  StoreClient old(port);
  old.set("key", "of round 0");
  EXPECT_EQ(old.get("key"), "of round 0");
  send_signal(job_->number_after("[0:0] pid "), SIGKILL);
  ASSERT_TRUE(job_->sees("TORCHELASTIC_RESTART_COUNT=1"));
  EXPECT_TRUE(old.is_closed_within());
  StoreClient fresh(port);
  fresh.send(kCheck + u64(1) + text("key"));
  EXPECT_EQ(fresh.receive(1), "\x01");  // not there
}

/// Listens at a port of its own.
class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(fd_, generic, size) == 0 && ::listen(fd_, 1) == 0 &&
        ::getsockname(fd_, generic, &size) == 0)
      port_ = ntohs(address.sin_port);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { ::close(fd_); }
  [[nodiscard]] int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

// Case N10: port taken.
TEST_F(StoreFaults, N10_ATakenPortIsRefusedWithItsOwner) {
  const Listener other;
  for (const std::string store : {"agent", "worker"}) {
    const auto job = launch({"--store",
                             store,
                             "--master-port",
                             std::to_string(other.port()),
                             "--no-python",
                             DDP_FAKE_WORKER,
                             "print",
                             "no"});
    EXPECT_EQ(job->wait(), 202);
    EXPECT_LT(job->lived(), allowed(500ms));  // the bound is 100 ms on an idle machine
    EXPECT_THAT(job->err(), HasSubstr("held by pid " + std::to_string(::getpid()) + " (fault_"));
    EXPECT_THAT(job->err(), HasSubstr("Give another --master-port"));
    EXPECT_EQ(job->out(), "");
  }
}

// Case N10: the node's address is another node's.
TEST_F(StoreFaults, N10_AnAddressOfAnotherNodeIsRefused) {
  const auto job =
      launch({"--master-addr", "192.0.2.7", "--no-python", DDP_FAKE_WORKER, "print", "no"});
  EXPECT_EQ(job->wait(), 202);
  EXPECT_THAT(job->err(), HasSubstr("192.0.2.7"));
  EXPECT_THAT(job->err(), HasSubstr("not one of this node"));
}

/// A node of its own, whose loopback interface is as the commands leave it.
class Loopback : public ProcessTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const std::string has_ipv6 =
        "ip -o -6 addr show dev lo | grep -q ::1";  // as tests/missing_features.py
    const auto probe = start(
        Command{.arguments = {"/bin/sh",
                              "-c",
                              has_ipv6 + " && exec unshare --net --uts --mount /bin/sh -c \"$0\"",
                              "ip link set lo up && " + has_ipv6}});
    if (probe->wait() != 0) GTEST_SKIP() << "needs iproute2, network namespaces and IPv6";
  }

  /// "$0" is the launcher, "$@" are the program and its arguments: one that looks for its store.
  std::unique_ptr<Running> in_node(const std::string& commands) {
    const std::string script = write_file("meet.py",
                                          "import os, socket, sys, urllib.request\n"
                                          "address = os.environ['MASTER_ADDR']\n"
                                          "at = address, int(os.environ['MASTER_PORT'])\n"
                                          "socket.create_connection(at, 10).close()\n"
                                          "for url in sys.argv[1:]:\n"
                                          "    print(urllib.request.urlopen(url).status)\n"
                                          "print('met at ' + address)\n");
    return start(Command{.arguments = {"/usr/bin/unshare",
                                       "--net",
                                       "/bin/sh",
                                       "-c",
                                       commands,
                                       DDP_LAUNCH,
                                       "--no-python",
                                       "/usr/bin/python3",
                                       script}});
  }
  std::unique_ptr<Running> with_ipv6_alone(const std::string& commands) {
    return in_node("ip link set lo up && ip addr del 127.0.0.1/8 dev lo && " + commands);
  }
};

TEST_F(Loopback, N12_LoopbackWithIPv6AloneIsUsed) {
  for (const std::string flags :
       {"", "--master-addr ::1 ", "--master-addr localhost ", "--standalone "}) {
    const auto job = with_ipv6_alone("exec \"$0\" --nproc-per-node 2 " + flags + "\"$@\"");
    EXPECT_EQ(job->wait(), 0) << flags << job->err();
    EXPECT_EQ(count(job->out(), "met at ::1\n"), 2U) << flags << job->out();
  }
}

TEST_F(Loopback, N12_ServingRankZeroIsGivenIPv6AloneLoopback) {
  const auto job = with_ipv6_alone("exec \"$0\" --store worker /usr/bin/env");
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(),
              AllOf(HasSubstr("MASTER_ADDR=::1\n"), HasSubstr("GLOO_SOCKET_IFNAME=lo\n")));
}

TEST_F(Loopback, N12_APortThatIsTakenInIPv6AloneIsNoFreeOne) {
  const std::string holder = write_file("hold.py",
                                        "import socket, subprocess, sys\n"
                                        "at = '::1', int(sys.argv[1])\n"
                                        "held = socket.create_server(at, family=socket.AF_INET6)\n"
                                        "sys.exit(subprocess.call(sys.argv[2:]))\n");
  const auto job = in_node("ip link set lo up && exec /usr/bin/python3 " + holder +
                           " 29512 \"$0\" --store worker --master-port 29512 /usr/bin/env");
  EXPECT_EQ(job->wait(), 202) << job->err();
  EXPECT_THAT(job->err(),
              AllOf(HasSubstr("held by pid "), HasSubstr("Give another --master-port")));
  EXPECT_EQ(job->out(), "");
}

TEST_F(Loopback, N12_ThePageIsThereToo) {
  const auto job = with_ipv6_alone("exec \"$0\" --web 8080 \"$@\" 'http://[::1]:8080/api/status'");
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->out(), HasSubstr("[0:0] 200\n[0:0] met at ::1\n"));
  EXPECT_THAT(job->err(), HasSubstr("http://[::1]:8080/"));
}

TEST_F(Loopback, N12_SeveralAgentsMeetThere) {
  for (const std::string flag : {"", "--master-addr ::1 "}) {
    const std::string agent = "\"$0\" --nnodes 2 --join-timeout 20s " + flag + "--node-rank ";
    const auto job = with_ipv6_alone("{ " + agent + "0 \"$@\" & " + agent +
                                     "1 \"$@\"; code=$?; wait $!; exit $((code + $?)); }");
    EXPECT_EQ(job->wait(), 0) << flag << job->err();
    EXPECT_EQ(count(job->out(), "met at ::1\n"), 2U) << flag << job->out();
  }
}

TEST_F(Loopback, N12_AnAddressThatTheUserNamedMustBeThere) {
  const auto said = [](const std::unique_ptr<Running>& job) {
    const int code = job->wait();
    return std::to_string(code) + " " + job->out() + job->err();
  };
  for (const std::string flags : {"", "--nnodes 2 --node-rank 0 "}) {
    const auto job = with_ipv6_alone("exec \"$0\" --master-addr 127.0.0.1 " + flags + "\"$@\"");
    EXPECT_THAT(said(job),
                AllOf(testing::StartsWith("202 "),
                      HasSubstr("cannot listen at 127.0.0.1:"),
                      HasSubstr("the loopback interface of this node has ::1 alone")));
  }
  const auto page = with_ipv6_alone("exec \"$0\" --web 127.0.0.1:8080 \"$@\"");
  EXPECT_THAT(said(page),
              AllOf(testing::StartsWith("2 "), HasSubstr("cannot listen at 127.0.0.1:8080")));
  const auto v4 = in_node(
      "ip link set lo up && ip addr del ::1/128 dev lo && exec \"$0\" --master-addr ::1 \"$@\"");
  EXPECT_THAT(said(v4),
              AllOf(testing::StartsWith("202 "),
                    HasSubstr("cannot listen at [::1]:"),
                    HasSubstr("the loopback interface of this node has 127.0.0.1 alone")));
}

TEST_F(Loopback, N12_LoopbackWithoutAnAddressIsReported) {
  const auto job = in_node("ip link set lo up && ip addr flush dev lo && exec \"$0\" \"$@\"");
  EXPECT_EQ(job->wait(), 125);
  EXPECT_THAT(job->err(), HasSubstr("`ip link set lo up`"));
}

}  // namespace
}  // namespace ddp::test
