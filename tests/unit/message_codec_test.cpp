#include "launcher/plan/wire/message_codec.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "common/files/files.h"
#include "launcher/plan/job_size.h"
#include "launcher/plan/web/job_view.h"

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::HasSubstr;

Hello a_hello() {
  Hello hello;
  hello.version = "1.2";
  hello.user_run_id = "mine";
  hello.node_rank = 3;
  hello.min_nodes = 2;
  hello.max_nodes = 4;
  hello.nproc = 8;
  hello.role = "trainer";
  hello.host = "b";
  hello.pid = 17;
  hello.entry = "train.py";
  hello.is_question = true;
  hello.has_debugger = true;
  hello.problem_code = 127;
  hello.problem = "no such file";
  hello.job_keys = {{"seed", "1"}, {"train.epochs", "3"}};
  return hello;
}

Ending an_ending() {
  Ending ending;
  ending.rank = 5;
  ending.status = ExitStatus{0, 9, true};
  ending.at = -3ns;
  ending.stop_sent = ending.abort_sent = ending.opened_page = true;
  ending.was_frozen = ending.was_asked_elsewhere = true;
  ending.phase = Phase::saving;
  return ending;
}

WorkerReport a_report() {
  WorkerReport report;
  report.ending = an_ending();
  report.node_rank = 1;
  report.host = "b";
  report.local_rank = 2;
  report.pid = 4000;
  report.lived = 5s + 1ns;
  report.ended_at = std::chrono::system_clock::time_point(1700000000s + 5ns);
  report.step = 10;
  report.steps_total = 20;
  report.error_file = "/run/e.json";
  report.error_text = "{\"message\": \"\\\"\"}";
  report.last_lines = {"one", "two \x1b[0m\t"};
  report.hidden_lines = {""};
  report.death_facts = {"out of memory"};
  report.rerun = "RANK=5 train";
  report.stacks.threads = {{"", true, {{"step", "/w/train.py", 21}, {"", "", 0}}}};
  report.stacks.idle = 2;
  return report;
}

WorkerSample a_sample() {
  WorkerSample sample;
  sample.rank = 5;
  sample.has_page = true;
  sample.phase = Phase::training;
  sample.epoch = 1;
  sample.step = 2;
  sample.steps_total = 3;
  sample.samples = 4;
  sample.loss = 0.5;
  sample.lr = 0.1;
  sample.checkpoint_step = 6;
  sample.written_ns = 1'000'000'000'000'000'000;
  sample.data_wait_ns = 9;
  sample.device_bytes = 10;
  sample.accuracy = 0.75;
  sample.activity = Activity{'T', "futex_do_wait", 6, 7, 8, 9, 10, 11};
  sample.in_collective = true;
  sample.output_bytes = 7;
  sample.waits_since = 8ns;
  sample.spent = TimeSpent{1, 2, 3, 4, 5, 6, 7};
  sample.delays = NodeDelays{1ns, 2, 3, 4ns, 5, 6ns, 7};
  return sample;
}

NodeZeroTerminal a_terminal() {
  return {
      .local_rank = 3, .size = {132, 43}, .term = "xterm-256color", .erase = 8, .is_utf8 = true};
}

std::string every_byte() {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte)
    bytes += static_cast<char>(byte);
  return bytes;
}

std::vector<NodeCommand> commands() {
  return {StartRound{2, 1, {1, 8}, {0, 1}, 29500, "/runs/mnist", true, a_terminal()},
          AnnounceStop{2, "SIGTERM came"},
          EndRound{2, EndReason::hang, "rank 3 hangs", 15, 30s, true},
          EndJob{137, RunState::stopped, "rank 3\n", "\"a\": 1", "{}"},
          Heartbeat{5, {{0, "epoch 1"}, {3, "loss 2"}}, true},
          TerminalInput{every_byte()},
          TerminalResized{{132, 43}},
          TerminalShown()};
}

std::vector<NodeEvent> events() {
  GroupEnded ended{2, {a_report(), a_report()}, {"pid 4001"}, "NVRM: Xid", 3, 17};
  HeartbeatReply heartbeat{2, 1, 2, 3, {a_sample(), WorkerSample{}}, {{"a line", "b"}, {}}};
  return {GroupStarted{2, 99, {10, 11}},
          WorkerEnded{2, a_report()},
          ended,
          AgentFailed{2, 126, "cannot execute"},
          StopRequested{2},
          heartbeat,
          TerminalOutput{every_byte(), true},
          TerminalTaken()};
}

TEST(MessageCodec, EveryCommandSurvivesTheWay) {
  ASSERT_EQ(commands().size(), std::variant_size_v<NodeCommand>);
  for (const NodeCommand& command : commands()) {
    const std::optional<NodeCommand> read = decode_command(encode(command));
    ASSERT_TRUE(read) << encode(command);
    EXPECT_EQ(*read, command);
  }
}

TEST(MessageCodec, TheSamplesOfTheLargestNodeFitIntoAFrame) {
  WorkerSample sample = a_sample();
  sample.rank = kMaxWorkers - 1;
  sample.epoch = 1000;
  sample.step = sample.steps_total = sample.checkpoint_step = 100'000'000;
  sample.samples = 1'000'000'000'000;
  sample.loss = sample.lr = 1.0 / 3e-5;
  sample.accuracy = 2.0 / 3;
  sample.data_wait_ns = 1'000'000'000'000'000;
  sample.device_bytes = 100'000'000'000;
  sample.output_bytes = 10'000'000'000;
  constexpr std::uint64_t kTicks = 1'000'000'000;
  sample.activity = Activity{
      'S', "futex_wait_queue", kTicks, kTicks, kTicks, kTicks, 1000 * kTicks, 100 * kTicks};
  HeartbeatReply reply{2, 1'000'000'000'000'000, 1'000'000'000'000'000, 3, {}};
  constexpr std::int64_t kSpan = 1'000'000'000'000'000;
  const std::optional<TimeSpent> spent = TimeSpent{kSpan, kSpan, kSpan, kSpan, kSpan, kSpan, kSpan};
  const std::optional<NodeDelays> delays = NodeDelays{
      nanoseconds(kSpan), kTicks, kTicks, nanoseconds(kSpan), 127, nanoseconds(kSpan), kTicks};
  const auto fill = [&](std::size_t workers) {
    sample.spent = workers > kMostWithTimes ? std::nullopt : spent;
    sample.delays = workers > kMostWithTimes ? std::nullopt : delays;
    reply.samples.assign(workers, sample);
  };
  fill(kMaxWorkersOfNode);
  EXPECT_LE(encode(NodeEvent(reply)).size(), kLongestFrame);
  // While somebody looks, with lines of which each byte takes two.
  for (const std::size_t workers : {1, 109, 110, 163, 327, 328, 512, kMaxWorkersOfNode}) {
    fill(workers);
    const std::string line(kToldLineBytes, '"');
    const std::vector<std::string> lines(count_sent_lines(workers), line);
    reply.last_lines.assign(lines.empty() ? 0 : workers, lines);
    ASSERT_LE(encode(NodeEvent(reply)).size(), kLongestFrame) << workers;
  }
}

TEST(MessageCodec, EveryEventSurvivesTheWay) {
  ASSERT_EQ(events().size(), std::variant_size_v<NodeEvent>);
  for (const NodeEvent& message : events()) {
    const std::optional<NodeEvent> read = decode_event(encode(message));
    ASSERT_TRUE(read) << encode(message);
    EXPECT_EQ(read->index(), message.index());
    EXPECT_EQ(encode(*read), encode(message));
  }
  const auto ended = std::get<GroupEnded>(*decode_event(encode(events()[2])));
  ASSERT_EQ(ended.workers.size(), 2U);
  const WorkerReport report = a_report();
  EXPECT_EQ(ended.workers[0].ending, report.ending);
  EXPECT_EQ(ended.workers[0].lived, report.lived);
  EXPECT_EQ(ended.workers[0].ended_at, report.ended_at);
  EXPECT_EQ(ended.workers[0].checkpoint_step, -1);
  EXPECT_EQ(ended.workers[0].error_text, report.error_text);
  EXPECT_EQ(ended.workers[0].last_lines, report.last_lines);
  EXPECT_EQ(ended.gpu_error, "NVRM: Xid");
  EXPECT_EQ(ended.survivors, 3);
  EXPECT_EQ(ended.survivor_step, 17);
  const auto heartbeat = std::get<HeartbeatReply>(*decode_event(encode(events()[5])));
  EXPECT_EQ(heartbeat.samples[0].loss, 0.5);
  EXPECT_EQ(heartbeat.samples[0].lr, 0.1);
  EXPECT_EQ(heartbeat.samples[0].activity, a_sample().activity);
  EXPECT_EQ(heartbeat.samples[0].waits_since, 8ns);
  EXPECT_EQ(heartbeat.samples[1].waits_since, std::nullopt);
}

TEST(MessageCodec, TheHandshakeSurvivesTheWay) {
  EXPECT_EQ(decode_hello(encode(a_hello())), a_hello());
  Hello without_rank = a_hello();
  without_rank.node_rank.reset();
  EXPECT_EQ(decode_hello(encode(without_rank)), without_rank);
  const Welcome welcome{"r17", "none", "a"};
  EXPECT_EQ(decode_answer(encode(welcome)), Answer(welcome));
  const Refusal refusal{203, "node 1 is there already"};
  EXPECT_EQ(decode_answer(encode(refusal)), Answer(refusal));
}

TEST(MessageCodec, TextOfAnUnprovenPeerIsHarmlessToAConsoleAndToPaths) {
  Hello hello = a_hello();
  hello.host = "b\x1b[2J\r\n\x1b]0;title\ac";
  EXPECT_EQ(decode_hello(encode(hello))->host, "b c");
  const auto answer = decode_answer(encode(Refusal{203, "no\x1b[1A\x07 way"}));
  EXPECT_EQ(std::get<Refusal>(*answer).text, "no? way");
  hello.host = std::string(5000, 'h');
  EXPECT_LT(decode_hello(encode(hello))->host.size(), 300U);
  EndRound stop;
  stop.what = "why\x1b[2J\nddp-launch: forged";
  EXPECT_EQ(std::get<EndRound>(*decode_command(encode(NodeCommand(stop)))).what,
            "why ddp-launch: forged");
  const NodeEvent failed = AgentFailed{0, 1, "no\x1b[1A\x07 way"};
  EXPECT_EQ(std::get<AgentFailed>(*decode_event(encode(failed))).text, "no? way");
  for (const char* const id : {"", "..", "a/b", "a b"})
    EXPECT_FALSE(decode_answer(encode(Welcome{id, "none", "a"}))) << id;
  EXPECT_FALSE(decode_answer(encode(Welcome{std::string(65, 'a'), "none", "a"})));
}

TEST(MessageCodec, OnlyTheVersionIsReadOfAnotherProtocol) {
  const auto hello = decode_hello(R"({"type":"hello","protocol":99,"version":"9","nproc":"many"})");
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->protocol, 99);
  EXPECT_EQ(hello->version, "9");
}

TEST(MessageCodec, ALossThatIsNoNumberSpoilsNoMessage) {
  HeartbeatReply heartbeat{0, 0, 0, 0, {a_sample(), a_sample(), a_sample()}};
  heartbeat.samples[0].loss = std::nan("");
  heartbeat.samples[1].loss = std::numeric_limits<double>::infinity();
  heartbeat.samples[2].loss = 1e300;
  const auto read = std::get<HeartbeatReply>(*decode_event(encode(NodeEvent(heartbeat))));
  EXPECT_FALSE(read.samples[0].loss);
  EXPECT_FALSE(read.samples[1].loss);
  EXPECT_DOUBLE_EQ(read.samples[2].loss.value(), 1e300);
}

TEST(MessageCodec, UnknownFieldsAreIgnored) {
  const auto read = decode_event(R"({"type":"stop-requested","signal":2,"more":[1,{}]})");
  ASSERT_TRUE(read);
  EXPECT_EQ(std::get<StopRequested>(*read), StopRequested{2});
}

TEST(MessageCodec, TextThatIsNotAMessageIsRefused) {
  for (const std::string_view text :
       {"",
        "x",
        "[]",
        "7",
        "{}",
        R"({"type":7})",
        R"({"type":"nonsense","signal":2})",
        R"({"type":"start-round","signal":2})",  // a command is not an event
        R"({"signal":2})",
        R"({"type":"stop-requested"})",
        R"({"type":"stop-requested","signal":"2"})",
        R"({"type":"stop-requested","signal":2.5})",
        R"({"type":"stop-requested","signal":true})",
        R"({"type":"stop-requested","signal":null})",
        R"({"type":"stop-requested","signal":0})",
        R"({"type":"stop-requested","signal":65})",
        R"({"type":"stop-requested","signal":18446744073709551617})",
        R"({"type":"stop-requested","signal":2} )"
        "x",
        "{\"type\":\"agent-failed\",\"round\":0,\"code\":1,\"text\":\"\xff\"}",
        R"({"type":"group-started","round":0,"begin":0,"pids":[1,"2"]})",
        R"({"type":"group-started","round":0,"begin":0,"pids":{}})",
        R"({"type":"worker-ended","round":0,"worker":1})"})
    EXPECT_FALSE(decode_event(text)) << text;
}

/// `message` with `from` replaced by `to`; it must be there.
std::string changed(std::string message, std::string_view from, std::string_view to) {
  const std::size_t at = message.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << message;
  return message.replace(at, from.size(), to);
}

TEST(MessageCodec, NumbersOutOfTheirRangeAreRefused) {
  const std::string start = encode(commands()[0]);
  EXPECT_TRUE(decode_command(start));
  EXPECT_FALSE(decode_command(changed(start, "\"node_rank\":1", "\"node_rank\":2")));
  EXPECT_FALSE(decode_command(changed(start, "\"node_rank\":1", "\"node_rank\":-1")));
  EXPECT_FALSE(decode_command(changed(start, "[1,8]", "[1,0]")));
  EXPECT_FALSE(decode_command(changed(start, "[1,8]", "[1000000000,1000000000]")));
  EXPECT_FALSE(decode_command(changed(start, "29500", "65536")));
  const std::string stop = encode(commands()[2]);
  EXPECT_TRUE(decode_command(stop));
  EXPECT_FALSE(decode_command(changed(stop, "\"reason\":4", "\"reason\":10")));
  EXPECT_FALSE(decode_command(changed(stop, "30000000000", "9000000000000000000")));
  const std::string hello = encode(a_hello());
  EXPECT_FALSE(decode_hello(changed(hello, "\"min_nodes\":2", "\"min_nodes\":5")));
  EXPECT_FALSE(decode_hello(changed(hello, "\"nproc\":8", "\"nproc\":0")));
  EXPECT_FALSE(decode_hello(changed(hello, "\"problem_code\":127", "\"problem_code\":256")));
  EXPECT_FALSE(decode_answer(R"({"type":"refusal","code":0,"text":""})"));
}

// A row per number: what a job of the largest size says is taken, one more is not. Each of these
// was memory, an index or a sum somewhere.
TEST(MessageCodec, A7_EveryNumberHasALimitThatAJobOfAnySizeKeeps) {
  struct Row {
    std::string message;
    std::string field;  // as it stands there
    std::string most;
    std::string more;
  };
  const std::string hello = encode(a_hello());
  const std::string start = encode(commands()[0]);
  const std::string stop = encode(commands()[2]);
  const std::string heartbeat = encode(commands()[4]);
  const std::string started = encode(events()[0]);
  const std::string exited = encode(events()[1]);
  const std::string ended = encode(events()[2]);
  const std::string heartbeat_reply = encode(events()[5]);
  const std::string large = "1000000000000000000";
  const std::string too_large = "1000000000000000001";
  for (const Row& row : {
           Row{hello, "\"nproc\":8", "2048", "999999999"},
           Row{hello, "\"node_rank\":3", "99999", "100000"},
           Row{hello, "\"max_nodes\":4", "100000", "100001"},
           Row{hello, "\"pid\":17", "4194304", "4194305"},
           Row{start, "\"node_rank\":1", "1", "1000000000"},
           Row{stop, "\"grace\":30000000000", "2592000000000000", "2592000000000001"},
           Row{heartbeat, "\"sent\":5", large, too_large},
           Row{started, "\"begin\":99", large, too_large},
           Row{exited, "\"local_rank\":2", "2047", "2048"},
           Row{exited, "\"rank\":5", "999999", "1000000"},
           Row{exited, "\"at\":-3", large, too_large},
           Row{exited, "\"at\":-3", "-" + large, "-" + too_large},
           Row{ended, "\"lived\":5000000001", large, too_large},
           Row{ended, "\"step\":10", large, too_large},
           Row{heartbeat_reply, "\"sent\":1", large, too_large},
           Row{heartbeat_reply, "\"echo\":2", large, too_large},
           Row{heartbeat_reply, "\"echo_age\":3", large, too_large},
           Row{heartbeat_reply, "\"main\":6", large, too_large},
           Row{heartbeat_reply, "\"out\":7", large, too_large},
       }) {
    const std::string name = row.field.substr(0, row.field.find(':') + 1);
    const auto is_taken = [&](const std::string& number) {
      const std::string text = changed(row.message, row.field, name + number);
      return decode_hello(text) || decode_command(text) || decode_event(text);
    };
    EXPECT_TRUE(is_taken(row.most)) << name << row.most;
    EXPECT_FALSE(is_taken(row.more)) << name << row.more;
    EXPECT_FALSE(is_taken("-" + too_large)) << name;
    EXPECT_FALSE(is_taken("9223372036854775807")) << name;
    EXPECT_FALSE(is_taken("-9223372036854775808")) << name;
  }
}

TEST(MessageCodec, A7_MoreThanANodeOrAJobHasIsRefused) {
  EXPECT_TRUE(
      decode_event(encode(NodeEvent(GroupStarted{0, 0, std::vector<std::int64_t>(2048, 1)}))));
  EXPECT_FALSE(
      decode_event(encode(NodeEvent(GroupStarted{0, 0, std::vector<std::int64_t>(2049, 1)}))));
  StartRound start;
  start.workers_of_node.assign(1250, 8);  // the largest job that is measured
  start.role_of_node.assign(1250, 0);
  EXPECT_TRUE(decode_command(encode(NodeCommand(start))));
  start.workers_of_node.assign(1250, 2048);  // more than a million workers
  EXPECT_FALSE(decode_command(encode(NodeCommand(start))));
  start.workers_of_node = {1, 1};
  start.role_of_node = {0, 2};
  EXPECT_FALSE(decode_command(encode(NodeCommand(start)))) << "there are two nodes";
  start.role_of_node = {0, 1};
  start.run_dir = "elsewhere";
  EXPECT_FALSE(decode_command(encode(NodeCommand(start))))
      << "a path that depends on where it is read";
  start.run_dir = "/runs";
  start.terminal = a_terminal();
  EXPECT_TRUE(decode_command(encode(NodeCommand(start))));
  for (const std::string& term : {std::string(65, 'x'), std::string("x\x1b[2J")}) {
    start.terminal->term = term;
    EXPECT_FALSE(decode_command(encode(NodeCommand(start)))) << term;
  }
  const std::string above(R"({"type":"terminal-input","bytes":"\u0100"})");
  EXPECT_FALSE(decode_command(above)) << "not the character of a byte";
  Hello hello = a_hello();
  for (int i = 0; i <= 1024; ++i)
    hello.job_keys["key" + std::to_string(i)] = "1";
  EXPECT_FALSE(decode_hello(encode(hello)));
  const std::string text(60 << 10, 'x');
  EXPECT_FALSE(
      decode_event(R"({"type":"agent-failed","round":0,"code":1,"text":")" + text + "\"}"));
}

// What a broken worker leaves on its page must not cost its node the link.
TEST(MessageCodec, OurOwnMessagesAreAlwaysTaken) {
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  HeartbeatReply heartbeat{0, 0, 0, 0, {a_sample(), a_sample()}};
  heartbeat.samples[0].epoch = heartbeat.samples[0].step = heartbeat.samples[0].samples = kLeast;
  heartbeat.samples[0].written_ns = kMost;
  heartbeat.samples[0].output_bytes = std::numeric_limits<std::uint64_t>::max();
  heartbeat.samples[1].activity.io_bytes = std::numeric_limits<std::uint64_t>::max();
  const auto read = decode_event(encode(NodeEvent(heartbeat)));
  ASSERT_TRUE(read);
  EXPECT_LT(std::get<HeartbeatReply>(*read).samples[0].step, 0);
  GroupEnded ended{0, {a_report()}, {}, ""};
  ended.workers[0].step = kMost;
  ended.workers[0].checkpoint_step = kLeast;
  EXPECT_TRUE(decode_event(encode(NodeEvent(ended))));
}

TEST(MessageCodec, TextOfAKernelLogIsOneHarmlessLine) {
  const auto read = decode_event(encode(NodeEvent(GroupEnded{0, {}, {}, "a\n\x1b[2J"})));
  ASSERT_TRUE(read);
  EXPECT_EQ(std::get<GroupEnded>(*read).gpu_error.find_first_of("\n\x1b"), std::string::npos);
}

// Case C11: deep JSON.
TEST(MessageCodec, C11_DeepJsonIsRefused) {
  const auto nested = [](std::size_t depth) {
    return R"({"type":"stop-requested","signal":2,"more":)" + std::string(depth, '[') +
           std::string(depth, ']') + "}";
  };
  EXPECT_TRUE(decode_event(nested(15)));
  EXPECT_FALSE(decode_event(nested(17)));
  EXPECT_FALSE(decode_event(nested(500000)));
}

TEST(MessageCodec, AnyBytesOfAWorkerGiveValidJson) {
  WorkerReport report = a_report();
  report.last_lines = {std::string("a\xff\0\x01\xc3", 5), "\xe2\x82\xac\xed\xa0\x80"};
  const auto read =
      std::get<GroupEnded>(*decode_event(encode(NodeEvent(GroupEnded{0, {report}, {}, ""}))));
  EXPECT_EQ(read.workers[0].last_lines[0], std::string("a\xef\xbf\xbd\0\x01\xef\xbf\xbd", 9));
  EXPECT_EQ(read.workers[0].last_lines[1], "\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(MessageCodec, TooMuchTextLosesItsOldestLines) {
  WorkerReport report = a_report();
  report.last_lines.assign(100, std::string(5000, '\x01'));  // six bytes each in JSON
  report.last_lines.push_back("the newest");
  report.error_text = std::string(300000, 'e');
  const GroupEnded ended{0, std::vector<WorkerReport>(8, report), {}, ""};
  const std::string text = encode(NodeEvent(ended));
  EXPECT_LE(text.size(), kLongestFrame);
  EXPECT_GT(text.size(), kLongestFrame / 4);
  const auto read = std::get<GroupEnded>(*decode_event(text));
  ASSERT_EQ(read.workers.size(), 8U);
  EXPECT_EQ(read.workers[7].last_lines.back(), "the newest");
  EXPECT_EQ(read.workers[7].last_lines[0].size(), kLongestLine + 3);
  EXPECT_THAT(read.workers[7].last_lines[0], HasSubstr("..."));
  EXPECT_EQ(read.workers[7].death_facts, report.death_facts);
}

TEST(MessageCodec, ALongReportIsCutAtItsEnd) {
  EndJob end;
  end.report = "the root cause\n" + std::string(3 * kLongestFrame, '\n');
  end.error_text = "{}";
  const std::string text = encode(NodeCommand(end));
  EXPECT_LE(text.size(), 3 * kLongestEndText);  // 1,249 of these wait to be sent at once
  const auto read = std::get<EndJob>(*decode_command(text));
  EXPECT_TRUE(read.report.starts_with("the root cause\n"));
  EXPECT_TRUE(read.report.ends_with(" (cut)\n"));
  EXPECT_EQ(read.error_text, "{}");
}

TEST(MessageCodec, ATextIsCutBetweenItsCharacters) {
  AgentFailed failed{0, 1, std::string(kLongestText - 1, 'a') + "\xe2\x82\xac and more"};
  const auto read = std::get<AgentFailed>(*decode_event(encode(NodeEvent(failed))));
  EXPECT_EQ(read.text, std::string(kLongestText - 1, 'a') + "...");
}

// A seed of an older protocol is refused at its first field, and leads the fuzzer nowhere.
TEST(MessageCodec, TheSeedsOfTheFuzzTargetAreMessages) {
  const std::filesystem::path seeds = DDP_TESTS_DIR "/fuzz/seeds/agent_messages";
  for (const char* const name : {"agent_failed",
                                 "group_ended",
                                 "group_started",
                                 "heartbeat_reply",
                                 "stop_requested",
                                 "worker_ended"})
    EXPECT_TRUE(decode_event(read_file(seeds / name, 1 << 20).value_or(""))) << name;
  for (const char* const name :
       {"announce_stop", "end_job", "end_round", "heartbeat", "start_round"})
    EXPECT_TRUE(decode_command(read_file(seeds / name, 1 << 20).value_or(""))) << name;
  EXPECT_TRUE(decode_hello(read_file(seeds / "hello", 1 << 20).value_or("")));
}

}  // namespace
}  // namespace ddp::launcher
