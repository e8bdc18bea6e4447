#include "worker/dist/store_answer.h"

#include <gtest/gtest.h>

#include <thread>

#include "early_error_ranks.h"

namespace ddp::worker {
namespace {

/// Of a port where `answer` is all that is said.
StoreAnswer answer_to(const std::string& answer) {
  const Descriptor listener = listen_on_loopback();
  std::thread speaker([&] {
    const Descriptor caller(::accept(listener.fd(), nullptr, nullptr));
    send_text(caller, answer);
    char byte = 0;
    while (::recv(caller.fd(), &byte, 1, 0) > 0)
      continue;
  });
  const StoreAddresses addresses(rank_of_three(1, port_of(listener)));
  StoreAnswer found = addresses.ask(Clock::now() + kLong);
  found.to_rank_0 = Descriptor();
  speaker.join();
  return found;
}

/// As rank 0 of that job sends it.
std::string frame(const std::string& job, const std::string& why) {
  const std::uint32_t length = htonl(static_cast<std::uint32_t>(job.size() + why.size()));
  return std::string(kErrorMark) +
         std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + job + why;
}

TEST(StoreAnswer, ClosedPortIsNotListening) {
  const int port = free_port();
  const StoreAnswer found = StoreAddresses(rank_of_three(1, port)).ask(Clock::now() + kLong);
  EXPECT_FALSE(found.is_listening);
  EXPECT_EQ(found.local_address, std::nullopt);
}

TEST(StoreAnswer, AStoreAnswersWithItsEcho) {
  const StoreAnswer found = answer_to("ddp?");
  EXPECT_EQ(found.local_address, "127.0.0.1");
  EXPECT_EQ(found.error, std::nullopt);
}

TEST(StoreAnswer, ARankZeroOfThisJobAloneIsHeard) {
  const std::string job = job_line(rank_of_three(1, 0));
  EXPECT_EQ(answer_to(frame(job, "why")).error, "why");
  EXPECT_EQ(answer_to(frame("x" + job, "why")).error, std::nullopt);
}

TEST(StoreAnswer, TooLongOrTruncatedRefusalIsIgnored) {
  const std::string job = job_line(rank_of_three(1, 0));
  const std::string longest(kLongestError, 'x');
  EXPECT_EQ(answer_to(frame(job, longest)).error, longest);
  EXPECT_EQ(answer_to(frame(job, longest + "x")).error, std::nullopt);
  EXPECT_EQ(answer_to(std::string(kErrorMark) + "\x7f\x7f\x7f\x7fx").error, std::nullopt);
  const StoreAnswer cut = answer_to(frame(job, "why").substr(0, 12));
  EXPECT_TRUE(cut.is_listening);
  EXPECT_EQ(cut.error, std::nullopt);
}

TEST(StoreAnswer, ASilentStoreIsGivenUpAtTheDeadline) {
  const Descriptor silent = listen_on_loopback();
  const StoreAddresses addresses(rank_of_three(1, port_of(silent)));
  EXPECT_TRUE(addresses.ask(Clock::now()).is_listening);
  const StoreAnswer found = addresses.ask(Clock::now() + kLong);
  EXPECT_TRUE(found.is_listening);
  EXPECT_EQ(found.local_address, std::nullopt);
}

}  // namespace
}  // namespace ddp::worker
