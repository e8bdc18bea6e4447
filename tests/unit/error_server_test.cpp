#include "worker/dist/error_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>
#include <future>
#include <vector>

#include "early_error_ranks.h"

namespace ddp::worker {
namespace {

using std::chrono::milliseconds;

/// Rank 0 of three, in a thread.
struct ErrorServer {
  explicit ErrorServer(const std::string& why = "why",
                       milliseconds limit = kLong,
                       int on_port = free_port())
      : port(on_port), end(std::async(std::launch::async, [=] {
          serve_error(rank_of_three(0, on_port), why, limit);
        })) {}
  [[nodiscard]] bool has_ended(milliseconds within = milliseconds(50)) const {
    return end.wait_for(within) == std::future_status::ready;
  }

  int port;
  std::future<void> end;
};

std::future<bool> leave(const StoreAnswer& found, const WorkerIdentity& self) {
  return std::async(std::launch::async,
                    [&found, self] { return leave_with_rank_0(found.to_rank_0, self); });
}

std::string word_of(const WorkerIdentity& self, int rank) {
  return std::string(kHello) + job_line(self) + std::string(3, '\0') + static_cast<char>(rank);
}

/// It ends by that.
void let_both_speak(const ErrorServer& server) {
  std::vector<Descriptor> callers;
  for (int rank = 1; rank < 3; ++rank) {
    callers.push_back(connect_to(server.port));
    send_text(callers.back(), word_of(rank_of_three(rank, server.port), rank));
  }
  server.end.wait();
}

TEST(ErrorServer, AllHearItAndNoneLeavesBeforeTheLastHasSpoken) {
  const ErrorServer server;
  const WorkerIdentity first = rank_of_three(1, server.port);
  const WorkerIdentity second = rank_of_three(2, server.port);
  const StoreAnswer heard = hear(first);
  EXPECT_EQ(heard.error, "why");
  std::future<bool> left = leave(heard, first);
  EXPECT_EQ(left.wait_for(milliseconds(100)), std::future_status::timeout);
  const StoreAnswer late = hear(second);
  EXPECT_EQ(late.error, "why");
  EXPECT_TRUE(leave(late, second).get());
  EXPECT_TRUE(left.get());
  server.end.wait();
}

TEST(ErrorServer, SilentRankIsAbandonedAtTheLimit) {
  const ErrorServer server("why", milliseconds(2000));
  const WorkerIdentity first = rank_of_three(1, server.port);
  const StoreAnswer heard = hear(first);
  const StoreAnswer silent = hear(first);
  EXPECT_TRUE(leave(heard, first).get());
  server.end.wait();
}

TEST(ErrorServer, ARankOfAnotherJobHearsNothingAndIsNotCounted) {
  const ErrorServer server;
  for (int way = 0; way < 3; ++way) {
    WorkerIdentity other = rank_of_three(1, server.port);
    if (way == 0) other.user_run_id = "another";
    if (way == 1) other.restart_count = 1;
    if (way == 2) other.world_size = 4;
    const StoreAnswer found = hear(other);
    EXPECT_TRUE(found.is_listening);
    EXPECT_EQ(found.error, std::nullopt);
    EXPECT_EQ(found.local_address, std::nullopt);
    for (int rank = 0; rank < 3; ++rank)
      send_text(connect_to(server.port), word_of(other, rank));
  }
  EXPECT_FALSE(server.has_ended());
  let_both_speak(server);
}

TEST(ErrorServer, InvalidMessagesAreIgnored) {
  const ErrorServer server;
  const WorkerIdentity self = rank_of_three(1, server.port);
  std::vector<Descriptor> callers;
  for (const std::string& text : {std::string(),
                                  std::string("GET / HTTP/1.0\r\n\r\n"),
                                  std::string(2000, 'x'),
                                  word_of(self, 1).substr(0, 12),
                                  word_of(self, 3),   // no rank of three
                                  word_of(self, -1),  // nor is that
                                  word_of(self, 1),
                                  word_of(self, 1)}) {  // the same once more
    callers.push_back(connect_to(server.port));
    send_text(callers.back(), text);
    send_text(connect_to(server.port), text.substr(0, 12));  // and hangs up
  }
  EXPECT_FALSE(server.has_ended());
  EXPECT_EQ(hear(self).error, "why");
  let_both_speak(server);
}

TEST(ErrorServer, ALongReasonIsCut) {
  const std::string why(3 * kLongestError, 'x');
  const ErrorServer server(why);
  EXPECT_EQ(hear(rank_of_three(1, server.port)).error, why.substr(0, kLongestError));
  let_both_speak(server);
}

TEST(ErrorServer, ServerClosesForRankZeroOfANewStart) {
  const ErrorServer server;
  const WorkerIdentity joining = rank_of_three(1, server.port);
  const StoreAnswer heard = hear(joining);
  std::future<bool> left = leave(heard, joining);
  const WorkerIdentity again = rank_of_three(0, server.port);
  const StoreAnswer there = hear(again);
  EXPECT_FALSE(leave(there, again).get());
  EXPECT_GE(listen_on_loopback(server.port).fd(), 0);
  EXPECT_FALSE(left.get());
  server.end.wait();
}

TEST(ErrorServer, TakenPortEndsTheServerAtOnce) {
  const Descriptor another = listen_on_loopback();
  serve_error(rank_of_three(0, port_of(another)), "why", kLong);
}

TEST(ErrorServer, ServerListensOnIpv4WhenIpv6IsTaken) {
  const Descriptor another(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (another.fd() < 0) GTEST_SKIP() << "there is no IPv6 here";
  const int yes = 1;
  ::setsockopt(another.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
  ASSERT_EQ(::listen(another.fd(), 1), 0);
  const ErrorServer server("why", kLong, port_of(another));
  EXPECT_EQ(hear(rank_of_three(1, server.port)).error, "why");
  let_both_speak(server);
}

TEST(ErrorServer, WithoutDescriptorsItWaitsForSomeAndDoesNotSpin) {
  const ErrorServer server;
  const WorkerIdentity self = rank_of_three(1, server.port);
  const StoreAnswer heard = hear(self);  // kept: no descriptor is given back meanwhile
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Descriptor caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const rlimit none{static_cast<rlim_t>(caller.fd()), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const sockaddr_in address = loopback(server.port);
  EXPECT_EQ(::connect(caller.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  const std::clock_t begin = std::clock();
  EXPECT_FALSE(server.has_ended(milliseconds(500)));
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC / 4);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  let_both_speak(server);
}

}  // namespace
}  // namespace ddp::worker
