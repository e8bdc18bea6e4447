#include "launcher/plan/status/status_answer.h"

#include <gmock/gmock.h>

namespace ddp::launcher {
namespace {

using testing::HasSubstr;

constexpr std::string_view kGoodAnswer =
    R"({"run":"0123456789","rdzv_id":"mine","program":"train.py","pid":17,"run_dir":"",)"
    R"("endpoint":"127.0.0.1:29500","round":2,"max_restarts":0,"world_size":1,"uptime":5.5,)"
    R"("workers":[{"rank":0,"local_rank":0,"pid":18,"state":"S","uptime":1,"phase":"training",)"
    R"("epoch":1,"step":7,"steps_total":9,"loss":null,"checkpoint_step":null,)"
    R"("stdout":["one"],"stderr":[]}]})";

/// kGood with `from` replaced by `to`; it must be there.
std::string changed(std::string_view from, std::string_view to) {
  std::string text(kGoodAnswer);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(StatusAnswer, AWholeAnswerIsShown) {
  const auto job = read_answer(kGoodAnswer);
  ASSERT_TRUE(job);
  EXPECT_EQ(describe(*job),
            "01234567  pid 17  train.py  round 2  up 6 s  127.0.0.1:29500\n"
            "  rank 0  pid 18  state S  training  epoch 1  step 7/9\n");
  for (const auto& [number, shown] : std::vector<std::pair<std::string, std::string>>{
           {"2.5E-1", "0.2500"}, {"0.086234", "0.0862"}, {"0", "0.0000"}, {"1.25e-05", "1.25e-05"}})
    EXPECT_THAT(describe(*read_answer(changed("\"loss\":null", "\"loss\":" + number))),
                HasSubstr("  loss " + shown + "\n"));
  EXPECT_THAT(describe(*read_answer(changed("\"state\":\"S\",\"uptime\":1,",
                                            "\"ended\":true,\"ending\":\"exit code 3\","))),
              HasSubstr("  rank 0  pid 18  exit code 3  training"));
  EXPECT_EQ(describe_lines(*job), "[0 stdout] one\n");
  EXPECT_TRUE(read_answer(changed(",\"uptime\":1,", ",\"more\":{},")));  // of a later version
}

TEST(StatusAnswer, TheSlowestRankHasALine) {
  const std::string slow =
      R"("workers":[],"slowest_rank":{"rank":1,"text":"rank 1 is the \u001b"})";
  const std::string text = changed(kGoodAnswer.substr(kGoodAnswer.find("\"workers\"")), slow + "}");
  ASSERT_TRUE(read_answer(text)) << text;
  EXPECT_THAT(describe(*read_answer(text)),
              testing::ContainsRegex("\n  rank 1 is the [^\x1b]*\n$"));
  EXPECT_FALSE(read_answer(changed("\"workers\"", "\"slowest_rank\":[],\"workers\"")));
  EXPECT_FALSE(read_answer(changed("\"workers\"", "\"slowest_rank\":{},\"workers\"")));
}

TEST(StatusAnswer, UnknownValuesAreNotShown) {
  const std::string told = R"("epoch":1,"step":7,"steps_total":9)";
  const std::string loading = R"("epoch":null,"step":0,"steps_total":null)";
  EXPECT_THAT(describe(*read_answer(changed(told, loading))), HasSubstr("state S  training\n"));
  const std::string own = R"("epoch":null,"step":16,"steps_total":null)";
  EXPECT_THAT(describe(*read_answer(changed(told, own))), HasSubstr("training  step 16\n"));
  EXPECT_THAT(describe(*read_answer(changed("checkpoint_step\":null", "checkpoint_step\":40"))),
              HasSubstr("step 7/9  checkpoint 40\n"));
}

// Row A2.
TEST(StatusAnswer, A2_AnotherShapeIsNoAnswer) {
  for (const auto& [from, to] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"\"run\":", "\"no\":"},
           {"\"rdzv_id\":", "\"no\":"},
           {"\"pid\":17", "\"pid\":[]"},
           {"\"pid\":18", "\"pid\":{}"},
           {"\"uptime\":5.5", "\"uptime\":\"long\""},
           {"\"uptime\":5.5", "\"uptime\":1e300"},
           {"\"workers\":[", "\"no\":["},
           {"\"rank\":0,", ""},
           {"\"step\":7", "\"step\":[7]"},
           {"\"loss\":null", "\"loss\":\"low\""},
           {"[\"one\"]", "[1]"},
           {"[\"one\"]", "\"one\""},
           {"\"run_dir\":\"\",", ""}}) {
    EXPECT_FALSE(read_answer(changed(from, to))) << from << " " << to;
  }
  for (const std::string_view text : {"", "null", "[]", "17", "{}", "unknown request"})
    EXPECT_FALSE(read_answer(text)) << text;
  EXPECT_FALSE(read_answer(R"({"workers":[17]})"));
  EXPECT_FALSE(read_answer(std::string(100000, '[')));
}

TEST(StatusAnswer, A2_ShownTextMovesNoTerminalAndForgesNoLine) {
  const std::string forged = R"(x\u001b[2J\u001b[31m\nforged)" + std::string(100000, 'y');
  for (const std::string_view name :
       {"rdzv_id\":\"mine", "program\":\"train.py", "phase\":\"trai"}) {
    const auto job = read_answer(changed(name, std::string(name) + forged));
    ASSERT_TRUE(job) << name;
    const std::string text = describe(*job) + headline(*job);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find("\nforged"), std::string::npos);
    EXPECT_LT(text.size(), 20000U);
  }
  const auto job = read_answer(changed("\"one\"", "\"a\\u001b[2J\\u0007b\\nforged\""));
  ASSERT_TRUE(job);
  EXPECT_EQ(describe_lines(*job), "[0 stdout] a?b?forged\n");
}

}  // namespace
}  // namespace ddp::launcher
