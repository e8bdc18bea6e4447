// The console of an agent on a real terminal: what a person sees, not which bytes were sent.
#include "launcher/run/console.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/support/process_test.h"

namespace ddp::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// What a terminal shows: one line is rewritten by "\r" and erased by "\x1b[K".
class Screen {
 public:
  void take(const std::string& bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == '\n') {
        lines_.push_back(line_);
        line_.clear();
        column_ = 0;
      } else if (bytes[i] == '\r') {
        column_ = 0;
      } else if (bytes.compare(i, 3, "\x1b[K") == 0) {
        line_.resize(column_);
        i += 2;
      } else {
        if (column_ == line_.size()) line_ += ' ';
        line_[column_++] = bytes[i];
      }
    }
  }
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }
  [[nodiscard]] const std::string& last() const { return line_; }

 private:
  std::vector<std::string> lines_;
  std::string line_;
  std::size_t column_ = 0;
};

/// stderr is a terminal for as long as it lives, or a pipe.
class Stderr {
 public:
  enum class Kind { terminal, pipe };

  explicit Stderr(Kind kind, unsigned short columns = 40)
      : saved_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
    int other = -1;
    int ends[2] = {-1, -1};
    if (kind == Kind::terminal) {
      winsize size{24, columns, 0, 0};
      EXPECT_EQ(::openpty(&reader_, &other, nullptr, nullptr, &size), 0);
    } else {
      EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
      reader_ = ends[0];
      other = ends[1];
    }
    ::dup2(other, STDERR_FILENO);
    ::close(other);
  }
  Stderr(const Stderr&) = delete;
  Stderr& operator=(const Stderr&) = delete;
  ~Stderr() {
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(reader_);
  }

  Screen& read() {
    pollfd entry{reader_, POLLIN, 0};
    char bytes[4096];
    while (::poll(&entry, 1, 0) == 1) {
      const ssize_t got = ::read(reader_, bytes, sizeof bytes);
      if (got <= 0) break;
      screen_.take(std::string(bytes, static_cast<std::size_t>(got)));
    }
    return screen_;
  }
  bool shows_last(const std::string& line) {
    return test::eventually([&] { return read().last() == line; }, test::kTestTimeout);
  }

 private:
  int saved_;
  int reader_ = -1;
  Screen screen_;
};

TEST(Console, TheLiveLineStaysBelowAllOthers) {
  Stderr terminal(Stderr::Kind::terminal);
  {
    FileWriter writer;
    Console console(writer, log::Level::info, false);
    console.live({{0, "step 1"}});
    EXPECT_TRUE(terminal.shows_last("step 1")) << terminal.read().last();
    writer.write(FileWriter::kStderr, "[0] a line of a worker\n");
    console.live({{0, "step 2"}});
    EXPECT_TRUE(terminal.shows_last("step 2")) << terminal.read().last();
    writer.write(FileWriter::kStderr, "[1] another\n[0] and one more\n");
    console.info("a line of ours");
    EXPECT_TRUE(
        test::eventually([&] { return terminal.read().lines().size() == 4; }, test::kTestTimeout));
    EXPECT_TRUE(terminal.shows_last("step 2")) << terminal.read().last();
  }
  EXPECT_THAT(terminal.read().lines(),
              ElementsAre("[0] a line of a worker",
                          "[1] another",
                          "[0] and one more",
                          "ddp-launch: a line of ours"));
  EXPECT_EQ(terminal.read().last(), "");  // nothing of it stays behind
}

TEST(Console, AProgressBarTakesThePlaceOfTheLiveLine) {
  Stderr terminal(Stderr::Kind::terminal);
  FileWriter writer;
  Console console(writer, log::Level::info, false);
  console.live({{0, "5 s since the last output"}});
  writer.show_bar("[0] 10%|#  |");
  EXPECT_TRUE(terminal.shows_last("[0] 10%|#  |")) << terminal.read().last();
  console.live({{0, "6 s since the last output"}});
  writer.write(FileWriter::kStderr, "[0] a line\n");
  writer.show_bar("[0] 20%|## |");
  EXPECT_TRUE(terminal.shows_last("[0] 20%|## |")) << terminal.read().last();
  writer.show_bar("");
  EXPECT_TRUE(terminal.shows_last("6 s since the last output")) << terminal.read().last();
  EXPECT_THAT(terminal.read().lines(), ElementsAre("[0] a line"));
}

TEST(Console, AnUnfinishedLineIsLeftAlone) {
  Stderr terminal(Stderr::Kind::terminal);
  FileWriter writer;
  Console console(writer, log::Level::info, false);
  console.live({{0, "step 1"}});
  writer.write(FileWriter::kStderr, "Password: ");
  EXPECT_TRUE(terminal.shows_last("Password: ")) << terminal.read().last();
  console.live({{0, "step 2"}});
  writer.write(FileWriter::kStderr, "given\n");
  EXPECT_TRUE(terminal.shows_last("step 2")) << terminal.read().last();
  EXPECT_THAT(terminal.read().lines(), ElementsAre("Password: given"));
}

TEST(Console, ALiveLineFitsIntoTheTerminalAndIsText) {
  Stderr terminal(Stderr::Kind::terminal);
  FileWriter writer;
  Console console(writer, log::Level::info, false);
  console.live({{0, "step 1"}, {2, std::string(24, 'y')}, {1, "loss 0.5"}});
  EXPECT_TRUE(terminal.shows_last("step 1, loss 0.5")) << terminal.read().last();
  console.live({{0, std::string(100, 'x')}});  // there is nothing to leave out
  EXPECT_TRUE(terminal.shows_last(std::string(39, 'x'))) << terminal.read().last();
  console.live({{0, "a\nb\x1b[2Jc"}});
  EXPECT_TRUE(terminal.shows_last("a?bc")) << terminal.read().last();
  console.live({});
  EXPECT_TRUE(terminal.shows_last("")) << terminal.read().last();
}

TEST(Console, WithoutATerminalTheLiveLineIsSilentForHalfAMinute) {
  Stderr pipe(Stderr::Kind::pipe);
  {
    FileWriter writer;
    Console console(writer, log::Level::info, false);
    console.live({{0, "step 1"}});
    console.live({{0, "step 2"}});
  }
  EXPECT_THAT(pipe.read().lines(), IsEmpty());
  EXPECT_EQ(pipe.read().last(), "");
}

TEST(Console, AWideTerminalHasOurNameBeforeTheLiveLine) {
  Stderr terminal(Stderr::Kind::terminal, 80);
  FileWriter writer;
  Console console(writer, log::Level::info, false);
  console.live({{0, "step 1"}});
  EXPECT_TRUE(terminal.shows_last("ddp-launch: step 1")) << terminal.read().last();
}

TEST(Console, PlainAndOffLeaveATerminalAlone) {
  for (const ProgressMode progress : {ProgressMode::plain, ProgressMode::off}) {
    Stderr terminal(Stderr::Kind::terminal);
    {
      FileWriter writer;
      Console console(writer, log::Level::info, false, progress);
      console.live({{0, "step 1"}});
      console.info("the end");
    }
    EXPECT_THAT(terminal.read().lines(), ElementsAre("ddp-launch: the end"));
  }
}

TEST(Console, LogLevelWarningHidesTheLiveLine) {
  Stderr terminal(Stderr::Kind::terminal);
  {
    FileWriter writer;
    Console console(writer, log::Level::warning, false);
    console.live({{0, "step 1"}});
    console.warning("careful");
  }
  EXPECT_THAT(terminal.read().lines(), ElementsAre("ddp-launch: careful"));
}

}  // namespace
}  // namespace ddp::launcher
