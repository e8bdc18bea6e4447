#include "worker/train/live_line_console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace ddp::worker {
namespace {

TEST(LiveLineConsole, TextComesOutInOrderAndAtOnce) {
  std::ostringstream screen;
  LastLine line;
  std::ostream stream(screen.rdbuf());
  {
    const AboveLine above(stream, line);
    stream << "epoch " << 1 << '\n';
    EXPECT_EQ(screen.str(), "epoch 1\n");
    stream << "half";
    EXPECT_EQ(screen.str(), "epoch 1\nhalf");
  }
  stream << " a line\n";
  EXPECT_EQ(screen.str(), "epoch 1\nhalf a line\n");
}

TEST(LiveLineConsole, LiveLineIsErasedForOutputAndDrawnAgainBelow) {
  std::ostringstream screen;
  LastLine line;
  testing::internal::CaptureStderr();
  line.show("step 1");
  line.write(*screen.rdbuf(), "half");
  line.show("step 2");  // not behind an unfinished line
  line.write(*screen.rdbuf(), " a line\n");
  line.show("");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "step 1\r"
            "\r\x1b[K"
            "step 2\r"
            "\r\x1b[K");
  EXPECT_EQ(screen.str(), "half a line\n");
}

}  // namespace
}  // namespace ddp::worker
