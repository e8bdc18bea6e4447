// Which last words tell of an error of the worker's own. The texts are those of torch 2.15.
#include "launcher/plan/failure/own_error.h"

#include <gtest/gtest.h>

#include "launcher/plan/failure/worker_report.h"

namespace ddp::launcher {
namespace {

WorkerReport said(const std::vector<std::string>& lines) {
  WorkerReport report;
  report.last_lines = lines;
  return report;
}

TEST(OwnError, IsATracebackThatTellsOfNoPeer) {
  EXPECT_TRUE(raised_own_error(said({"Connection to the server: fine",
                                     "[rank1]: Traceback (most recent call last):",
                                     "[rank1]:   File \"train.py\", line 9, in <module>",
                                     "[rank1]:     json.loads(text)",
                                     "[rank1]: json.decoder.JSONDecodeError: Expecting value"})));
  EXPECT_TRUE(raised_own_error(
      said({"  File \"t.py\", line 1, in <module>",
            "ValueError: 3",
            "[rank0]:[W1129 23:01:02.1 ProcessGroupNCCL.cpp:1563] Warning: WARNING: "
            "destroy_process_group() was not called before program exit"})));
}

TEST(OwnError, MayBeThatOfAPeerOtherwise) {
  const std::string frame = "  File \"train.py\", line 9, in <module>";
  for (const char* const message :
       {"RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by "
        "peer [127.0.0.1]:2434",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2, remote process "
        "exited",
        "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes.",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "RuntimeError: Timed out waiting 1800000ms for send operation to complete"})
    EXPECT_FALSE(raised_own_error(said({frame, message}))) << message;
  EXPECT_FALSE(raised_own_error(said({"  File \"/x/torch/distributed/c10d_logger.py\", line 83",
                                      "RuntimeError: no words that we know"})));
  EXPECT_FALSE(raised_own_error(said({"Segmentation fault"})));
  EXPECT_FALSE(raised_own_error(said({})));
}

TEST(OwnError, IsInAnErrorFileToo) {
  WorkerReport report;
  report.error_text =
      R"({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": )"
      R"("Traceback (most recent call last):\n  File \"t.py\", line 3, in main\nValueError: x\n"}}})";
  EXPECT_TRUE(raised_own_error(report));
  report.last_lines = {"RuntimeError: Connection reset by peer"};
  EXPECT_TRUE(raised_own_error(report)) << "what was said before";
}

}  // namespace
}  // namespace ddp::launcher
