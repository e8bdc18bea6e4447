// Load on a TCP store, no matter who serves it: the same program for both sides of a comparison.
//   round-trips N         one client, a get after the other: operations per second
//   operations CLIENTS N  so many clients, each with one request on its way: operations per second
//   connects N            connect, VALIDATE, PING, answer, close: connects per second
//   barrier CLIENTS       connect all, all wait, one sets: milliseconds
// Usage: store_load PORT LOAD.
// Prints one number.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::string little(std::uint64_t value, int bytes) {
  std::string result;
  for (int i = 0; i < bytes; ++i)
    result += static_cast<char>(value >> (8 * i) & 0xff);
  return result;
}
std::string text(const std::string& value) {
  return little(value.size(), 8) + value;
}

const std::string kOpening =
    little(0, 1) + little(0x3C85F7CE, 4) + little(13, 1) + std::string("ping");
const std::string kSet = little(1, 1) + text("/key") + text("value of 16 byte");
const std::string kGet = little(3, 1) + text("/key");
constexpr std::size_t kGetReply = 8 + 16;

class Client {
 public:
  explicit Client(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("cannot connect");
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  Client(Client&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int fd() const { return fd_; }
  void send(const std::string& bytes) const {
    if (::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("send");
  }
  void receive(std::size_t bytes) const {
    char buffer[256];
    if (::recv(fd_, buffer, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes))
      throw std::runtime_error("recv");
  }
  void open() const {
    send(kOpening);
    receive(4);
  }

 private:
  int fd_;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double round_trips(int port, int count) {
  const Client client(port);
  client.open();
  client.send(kSet);
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    client.send(kGet);
    client.receive(kGetReply);
  }
  return count / seconds_since(begin);
}

double operations(int port, int clients, int count) {
  std::vector<Client> all;
  const int poll = ::epoll_create1(EPOLL_CLOEXEC);
  for (int i = 0; i < clients; ++i) {
    all.emplace_back(port);
    all.back().open();
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<std::uint32_t>(i);
    ::epoll_ctl(poll, EPOLL_CTL_ADD, all.back().fd(), &event);
  }
  all[0].send(kSet + kGet);
  all[0].receive(kGetReply);  // the others must not come before it
  const auto begin = Clock::now();
  for (const Client& client : all)
    client.send(kGet);
  std::vector<epoll_event> events(256);
  for (int done = 0; done < count;) {
    const int ready = ::epoll_wait(poll, events.data(), static_cast<int>(events.size()), 10000);
    if (ready <= 0) throw std::runtime_error("no answer within 10 s");
    for (int i = 0; i < ready; ++i) {
      const Client& client = all[events[static_cast<std::size_t>(i)].data.u32];
      client.receive(kGetReply);
      client.send(kGet);
    }
    done += ready;
  }
  const double result = count / seconds_since(begin);
  ::close(poll);
  return result;
}

double connects(int port, int count) {
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i)
    Client(port).open();
  return count / seconds_since(begin);
}

double barrier(int port, int clients) {
  const auto begin = Clock::now();
  const std::string key = "/go " + std::to_string(::getpid());
  std::vector<Client> all;
  for (int i = 0; i < clients; ++i)
    all.emplace_back(port);
  for (const Client& client : all)
    client.send(kOpening);
  for (const Client& client : all)
    client.receive(4);
  for (const Client& client : all)
    client.send(little(6, 1) + little(1, 8) + text(key));
  Client last(port);
  last.open();
  last.send(little(1, 1) + text(key) + text(""));
  for (const Client& client : all)
    client.receive(1);
  return 1000 * seconds_since(begin);
}

double measure(const std::vector<std::string>& words) {
  const int port = std::stoi(words.at(1));
  const std::string& what = words.at(2);
  const int number = std::stoi(words.at(3));
  if (what == "round-trips") return round_trips(port, number);
  if (what == "operations") return operations(port, number, std::stoi(words.at(4)));
  if (what == "connects") return connects(port, number);
  if (what == "barrier") return barrier(port, number);
  throw std::runtime_error("no such load: " + what);
}

}  // namespace

int main(int argc, char** argv) try {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  std::cout << measure({argv, argv + argc}) << std::endl;
  return 0;
} catch (const std::exception& error) {
  std::cerr << "store_load: " << error.what() << std::endl;
  return 1;
}
