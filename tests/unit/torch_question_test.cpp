#include "launcher/plan/start/torch_question.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(TorchQuestion, IsAskedWhereNobodyElseCanCount) {
  struct Row {
    const char* word;
    bool by_python;
    bool has_nvidia;
    bool has_amd;
    const char* kind;
  };
  for (const Row& row : {Row{"xpu", true, false, false, "xpu"},
                         Row{"xpu", true, true, true, "xpu"},
                         Row{"xpu", false, false, false, ""},
                         Row{"gpu", true, false, true, "cuda"},
                         Row{"auto", true, false, true, "cuda"},
                         Row{"gpu", true, true, true, ""},
                         Row{"gpu", true, false, false, ""},
                         Row{"auto", true, false, false, ""},
                         Row{"auto", false, false, true, ""},
                         Row{"cpu", true, false, true, ""},
                         Row{"", true, false, true, ""}}) {
    const TorchQuestion question =
        torch_question(row.word, row.by_python, row.has_nvidia, row.has_amd);
    EXPECT_EQ(question.kind, row.kind) << row.word << row.by_python << row.has_nvidia;
    EXPECT_EQ(question.problem.empty(), row.by_python || std::string(row.word) != "xpu");
  }
}

}  // namespace
}  // namespace ddp::launcher
