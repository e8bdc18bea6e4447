#include "launcher/plan/failure/failure_hints.h"

#include <gmock/gmock.h>

namespace ddp::launcher {
namespace {

using testing::HasSubstr;
using Lines = std::vector<std::string>;

const Lines kRefused{"usage: t.py [-h]", "t.py: error: unrecognized arguments: --local-rank=0"};
const Lines kMissing{"t.py: error: the following arguments are required: --local_rank, --lr"};

TEST(FailureHints, ARefusedSpellingNamesTheOther) {
  EXPECT_THAT(
      hint_for(kRefused, {"--local-rank", ""}).value_or(""),
      HasSubstr("if it knows --local_rank, start it with --append-local-rank=underscore, "));
  EXPECT_THAT(hint_for({"error: unrecognized arguments: --local_rank=3"}, {"--local_rank", ""})
                  .value_or(""),
              HasSubstr("if it knows --local-rank, start it with --append-local-rank, "));
  EXPECT_THAT(hint_for({"Error: No such option: --local-rank"}, {"--local-rank", ""}).value_or(""),
              HasSubstr("=underscore"));
}

TEST(FailureHints, AMissingArgumentNamesTheFlag) {
  EXPECT_EQ(hint_for(kMissing, {"", ""}).value_or(""),
            "the script wants --local_rank as an argument: start it with "
            "--append-local-rank=underscore.");
  EXPECT_THAT(hint_for(kMissing, {"--local-rank", ""}).value_or(""), HasSubstr("=underscore."));
  EXPECT_THAT(hint_for({"error: the following arguments are required: --local-rank"}, {"", ""})
                  .value_or(""),
              HasSubstr("with --append-local-rank."));
}

TEST(FailureHints, OtherWordsAreNoReasonForAHint) {
  EXPECT_EQ(hint_for({}, {"--local-rank", ""}), std::nullopt);
  EXPECT_EQ(hint_for({"training with --local-rank=0"}, {"--local-rank", ""}), std::nullopt);
  EXPECT_EQ(hint_for({"error: unrecognized arguments: --lr"}, {"--local-rank", ""}), std::nullopt);
  EXPECT_EQ(hint_for(kRefused, {"", ""}), std::nullopt);  // the user gave it
  EXPECT_EQ(hint_for(kMissing, {"--local_rank", ""}), std::nullopt);
}

TEST(FailureHints, APythonWithoutTorchIsNamed) {
  const Lines lines{"    import torch", "ModuleNotFoundError: No module named 'torch'"};
  EXPECT_EQ(hint_for(lines, {"", "/usr/bin/python3"}).value_or(""),
            "/usr/bin/python3 ran it, and has no torch: activate the environment that has "
            "it, or name its Python: PYTHON_EXEC=ENVIRONMENT/bin/python3.");
  EXPECT_EQ(hint_for(lines,
                     {"",
                      "/usr/bin/python3",
                      [] {
                        return Lines{"/a/bin/python3", "/b/bin/python3"};
                      }}),
            "/usr/bin/python3 ran it, and has no torch; /a/bin/python3, /b/bin/python3 have it: "
            "activate that environment, or name its Python: PYTHON_EXEC=/a/bin/python3");
  EXPECT_EQ(
      hint_for(lines, {"", "/a/bin/python3", [] { return Lines{"/a/bin/python3"}; }}),
      "/a/bin/python3 ran it, and has no torch: activate the environment that has it, or name "
      "its Python: PYTHON_EXEC=ENVIRONMENT/bin/python3.");
  EXPECT_EQ(hint_for(lines, {}).value_or(""),
            "the Python that ran has no torch: activate the environment that has it.");
  EXPECT_EQ(hint_for({"ModuleNotFoundError: No module named 'mine'"}, {}), std::nullopt);
}

TEST(FailureHints, ASharedLibraryThatIsGoneIsNamed) {
  const auto lines = [](const std::string& library) {
    return Lines{"./t: error while loading shared libraries: " + library +
                 ": cannot open shared object file: No such file or directory"};
  };
  EXPECT_EQ(hint_for(lines("libm2.so.6"), {}).value_or(""),
            "./t is there, its shared library libm2.so.6 is not: install it, or name its directory "
            "in LD_LIBRARY_PATH.");
  EXPECT_THAT(hint_for(lines("libtorch_cpu.so"), {}).value_or(""),
              HasSubstr("libtorch_cpu.so is not: it comes with LibTorch, which was moved or "));
  EXPECT_EQ(hint_for({"error while loading shared libraries"}, {}), std::nullopt);
}

TEST(FailureHints, ASymbolOfAnotherLibTorchIsExplained) {
  const auto lines = [](const std::string& symbol) {
    return Lines{"/a/ddp-worker: symbol lookup error: /b/libtorch_cpu.so: undefined symbol: " +
                 symbol};
  };
  EXPECT_EQ(hint_for(lines("_ZN3c1013GeneratorImpl12philox_stateEm"), {}).value_or(""),
            "/a/ddp-worker was built for another release of LibTorch than the one that is loaded "
            "in its place: unset LD_PRELOAD or LD_LIBRARY_PATH, whichever names that one.");
  EXPECT_EQ(hint_for(lines("_ZN5boost3foo"), {}), std::nullopt);
  EXPECT_EQ(hint_for({"undefined symbol: _ZN3c10"}, {}), std::nullopt);
}

}  // namespace
}  // namespace ddp::launcher
