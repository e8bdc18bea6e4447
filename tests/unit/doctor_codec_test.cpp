#include "launcher/plan/doctor/doctor_codec.h"

#include <gtest/gtest.h>

#include "launcher/plan/wire/frames.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

NodeHealth some_health() {
  NodeHealth node;
  node.node_rank = 1;
  node.host = "b";
  node.version = "0.5.0";
  node.kernel = "6.1";
  node.machine = "x86_64";
  node.cpus = 8;
  node.memory_bytes = std::int64_t{1} << 40;
  node.shared_bytes = 1 << 30;
  node.open_files = 1024;
  node.processes = 77;
  node.gpus = {"NVIDIA H200"};
  node.driver = "580.1";
  node.gpu_findings = {{"a problem."}, {"a note.", "another."}};
  node.interfaces = {"eth0 10.0.0.2"};
  node.address = "10.0.0.2";
  node.port = 40000;
  return node;
}

PeerCheck some_check() {
  PeerCheck check;
  check.node_rank = 2;
  check.error = "no answer";
  check.round_trip = 5us;
  check.clock_ahead = -3600s;
  check.bytes_per_second = 1.5e9;
  return check;
}

TEST(DoctorCodec, EveryMessageComesBackAsItWas) {
  for (const DoctorMessage& message :
       {DoctorMessage(some_health()),
        DoctorMessage(CheckPeers{1, {{0, "10.0.0.1", 4711}}, 1 << 20}),
        DoctorMessage(NodeChecks{1, {some_check()}}),
        DoctorMessage(DoctorEnd{1, "a\nb\n"})}) {
    EXPECT_EQ(decode_doctor(encode(message)), message) << encode(message);
  }
}

TEST(DoctorCodec, TheWordsOfAThousandNodesFitIntoAFrame) {
  CheckPeers order;
  NodeChecks checks;
  PeerCheck check = some_check();
  check.error = "the connection broke off after 1.234567 s, while 64 MiB were sent";
  for (std::size_t i = 0; i < 10000; ++i)
    order.nodes.push_back({static_cast<int>(i), "fd00:1234:5678:9abc:def0:1234:5678:9abc", 65535});
  checks.peers.assign(kMaxCheckedPeers, check);
  EXPECT_LT(encode(DoctorMessage(order)).size(), kLongestFrame);
  EXPECT_LT(encode(DoctorMessage(checks)).size(), kLongestFrame);
  const std::string text = encode(DoctorMessage(DoctorEnd{0, std::string(5 << 20, '\n')}));
  EXPECT_LT(text.size(), kLongestFrame);
  EXPECT_TRUE(decode_doctor(text).has_value());
}

TEST(DoctorCodec, AnIncompleteMessageIsNothing) {
  const std::string text = encode(DoctorMessage(some_health()));
  EXPECT_FALSE(decode_doctor("").has_value());
  EXPECT_FALSE(decode_doctor(text.substr(0, text.size() - 1)).has_value());
  EXPECT_FALSE(decode_doctor(R"({"type":"health"})").has_value());
  EXPECT_FALSE(decode_doctor(R"({"type":"heartbeat","sent":1,"line":""})").has_value());
  EXPECT_FALSE(decode_doctor(R"({"type":"diagnosis","exit_code":256,"text":""})").has_value());
  EXPECT_FALSE(
      decode_doctor(R"({"type":"look","own_node_rank":0,"nodes":[],"bytes":99999999999})"));
  EXPECT_TRUE(
      decode_doctor(R"({"type":"look","own_node_rank":0,"nodes":[],"bytes":1})").has_value());
}

}  // namespace
}  // namespace ddp::launcher
