#include "launcher/os/tcp_facts.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace ddp::launcher {

TcpFacts read_tcp_facts(int fd) {
  tcp_info info{};  // an older kernel fills less of it
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  TcpFacts facts;
  facts.segment = info.tcpi_snd_mss;
  // Resent bytes in flight now, or timeouts in a row: the connection's total (tcpi_total_retrans)
  // would include old losses.
  facts.resends = info.tcpi_retrans > 0 || info.tcpi_retransmits > 0;
  // A later, smaller packet has arrived while an earlier one has not: the path works, but not for
  // that size.
  facts.has_passed = info.tcpi_sacked > 0;
  facts.out_of_order = info.tcpi_rcv_ooopack;
  return facts;
}

}  // namespace ddp::launcher
