#include "launcher/plan/web/live_page.h"

#include <gmock/gmock.h>

#include "tests/unit/job_view_of_test.h"

namespace ddp::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

PageParts parts_after(int looks, const std::function<void(JobView&)>& change = {}) {
  JobHistory history;
  JobView job;
  for (int second = 0; second < looks; ++second) {
    job = a_job(100 + 10 * second);
    if (change) change(job);
    history.note(job);
  }
  return page_parts(job, history);
}

TEST(PageParts, ShowTheJobItsCurvesAndItsRanks) {
  const auto [head, charts, ranks, rounds] =
      parts_after(20, [](JobView& job) { job.earlier_rounds = {"round 0: rank 1 failed"}; });
  EXPECT_THAT(head,
              AllOf(HasSubstr("running"), HasSubstr("<b>290</b>"), HasSubstr("of at most 4")));
  EXPECT_THAT(head, HasSubstr("<b>6\u202f400</b><span>samples per second"));
  EXPECT_THAT(charts,
              AllOf(HasSubstr("Loss"), HasSubstr("<svg"), HasSubstr("checkpoint of step 100")));
  EXPECT_THAT(ranks, AllOf(HasSubstr("<td>4002</td>"), HasSubstr("training"), HasSubstr("10 ms")));
  EXPECT_THAT(ranks, AllOf(HasSubstr("<td>10 %</td>"), HasSubstr("<td>1.0 MiB</td>")));
  EXPECT_THAT(charts, AllOf(HasSubstr("Waiting for data"), HasSubstr("Device memory")));
  EXPECT_THAT(rounds, AllOf(HasSubstr("node-b"), HasSubstr("round 0: rank 1 failed")));
}

TEST(PageParts, TheSlowestRankIsNamed) {
  JobView job = a_job(200);
  job.slowest.emplace().rank = 2;
  job.slowest->phase = Phase::data;
  job.slowest->share = 0.25;
  job.slowest->cause = NodeCause::stopped;
  EXPECT_THAT(
      page_parts(job, JobHistory())[2],
      HasSubstr("<p>rank 2 is the slowest: others wait for it 25% of the time, for its wait "
                "for data. Its node: it is stopped again and again (state T).</p>"));
}

TEST(PageParts, AnEvaluationHasItsTileAndItsCurve) {
  EXPECT_THAT(parts_after(20)[1], Not(HasSubstr("Accuracy")));
  const PageParts parts =
      parts_after(20, [](JobView& job) { job.ranks[0].sample.accuracy = 0.975; });
  EXPECT_THAT(parts[0], AllOf(HasSubstr("<b>97.50 %</b>"), HasSubstr("accuracy of the newest")));
  EXPECT_THAT(parts[1], HasSubstr("Accuracy of the newest evaluation"));
}

TEST(PageParts, TheUsersIdIsTold) {
  const auto head_for = [](const std::string& id) {
    return parts_after(1, [&](JobView& job) {
      job.run_id = "0123456789abcdef0123456789abcdef";
      job.user_run_id = id;
    })[0];
  };
  EXPECT_THAT(head_for("job7"), HasSubstr("run 01234567, id job7, "));
  for (const char* const none : {"none", "01234567-89ab-cdef-0123-456789abcdef"})
    EXPECT_THAT(head_for(none), HasSubstr("run 01234567, node 0 is")) << none;
}

TEST(PageParts, TextOfOthersIsEscaped) {
  const PageParts parts = parts_after(20, [](JobView& job) {
    job.program = job.host = job.run_dir = job.run_id = "<img src=x onerror=1>";
    job.user_run_id = "<img src=y onerror=1>";
    job.nodes[0].host = "<script>";
    job.ranks[0].last_lines = {"</code><script>alert(1)</script>\x1b[31m"};
    job.earlier_rounds = {"<script>"};
    job.state = JobView::Shown::over;
    job.exit_code = 1;
    job.report = "<script>";
  });
  for (const std::string& part : parts) {
    EXPECT_THAT(part,
                AllOf(Not(HasSubstr("<script")), Not(HasSubstr("<img")), Not(HasSubstr("\x1b"))));
  }
  EXPECT_THAT(parts[2], HasSubstr("alert(1)"));
}

TEST(PageParts, AreBounded) {
  JobView job = a_job(100);
  job.ranks.assign(100'000, a_rank(0, 100));
  for (JobView::Rank& rank : job.ranks)
    rank.last_lines.assign(3, "a line");
  job.nodes.assign(10'000, JobView::Node{0, std::string(5000, 'x'), 0, 8});
  const PageParts parts = page_parts(job, JobHistory());
  for (const std::string& part : parts)
    EXPECT_LT(part.size(), 100U << 10);
  EXPECT_THAT(parts[2], HasSubstr("and 99744 more"));
}

TEST(PageParts, FewRanksHaveTheirLastLines) {
  JobView job = a_job(100);
  job.ranks[2].last_lines = {"one", "two", "three", "four"};
  const std::string ranks = page_parts(job, JobHistory())[2];
  EXPECT_THAT(ranks,
              HasSubstr("<td><code>two</code><br><code>three</code><br><code>four</code></td>"));
  job.ranks.assign(100, job.ranks[2]);
  EXPECT_THAT(page_parts(job, JobHistory())[2], HasSubstr("<td><code>four</code></td>"));
}

TEST(PageParts, SayHowItEnded) {
  const PageParts parts = parts_after(20, [](JobView& job) {
    job.state = JobView::Shown::over;
    job.exit_code = 7;
    job.report = "root cause: rank 3";
  });
  EXPECT_THAT(parts[0], AllOf(HasSubstr("exit code 7"), HasSubstr("root cause: rank 3")));
  const PageParts stopped = parts_after(20, [](JobView& job) {
    job.state = JobView::Shown::over;
    job.exit_code = 143;
    job.was_stopped = true;
  });
  EXPECT_THAT(stopped[0], HasSubstr("badge stopped\">stopped, exit code 143<"));
}

TEST(LivePage, HasItsPartsAndOneScript) {
  const std::string page = live_page("a <job>", {"HEAD", "CHARTS", "RANKS", "ROUNDS"});
  EXPECT_THAT(page,
              AllOf(HasSubstr("<title>a &lt;job&gt;</title>"), HasSubstr(">CHARTS</section>")));
  EXPECT_THAT(page, HasSubstr("<script>" + std::string(live_page_script()) + "</script>"));
  EXPECT_THAT(page, Not(HasSubstr("http")));  // nothing from elsewhere
}

TEST(ServerSentEvent, MayHaveSeveralLines) {
  EXPECT_EQ(server_sent_event("head", "a\nb\n"), "event: head\ndata: a\ndata: b\ndata: \n\n");
  EXPECT_EQ(server_sent_event("over", ""), "event: over\ndata: \n\n");
}

}  // namespace
}  // namespace ddp::launcher
