// A TCP port that stays ours between choosing it and its use by a worker.
// The socket is bound, never listening. Another socket may bind the same port if both say
// SO_REUSEADDR and neither listens (tcp(7), inet_csk_bind_conflict): so rank 0's store can, and the
// kernel gives the port to nobody who asks for a free one.
#pragma once

#include <string>

namespace ddp::launcher {

class PortReservation {
 public:
  /// `port` 0: a free one. Errors: SystemError, 202 when the port is taken.
  explicit PortReservation(int port);
  PortReservation(const PortReservation&) = delete;
  PortReservation& operator=(const PortReservation&) = delete;
  ~PortReservation();

  [[nodiscard]] int port() const { return port_; }

 private:
  int socket_ = -1;
  int port_ = 0;
};

}  // namespace ddp::launcher
