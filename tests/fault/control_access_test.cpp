// Another user of the node was there first: in /tmp/ddp-UID, or behind a control socket. Row A2 of
// the list of faults. The victims are users without a name, so that nobody else's jobs are near.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>

#include "launcher/net/control_socket.h"
#include "launcher/os/scratch_dir.h"
#include "launcher/plan/status/status_answer.h"
#include "tests/support/other_user.h"
#include "tests/support/process_test.h"

namespace ddp::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kForged =
    R"({"run":"forged-run","rdzv_id":"x","program":"\u001b[2J\u001b]0;title\u0007forged",)"
    R"("pid":1,"run_dir":"","endpoint":"here","round":0,"uptime":1,"workers":[]})";

sockaddr_un address_of(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

/// Listens at `directory`/control as that user and answers everybody the same; endlessly, if the
/// text is empty.
class FakeAgent {
 public:
  FakeAgent(const fs::path& directory, std::string answer, uid_t user) {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    pid_ = ::fork();
    if (pid_ == 0) serve(directory, answer, user, ready[1]);
    ::close(ready[1]);
    char byte = 0;
    is_ready_ = ::read(ready[0], &byte, 1) == 1;
    ::close(ready[0]);
  }
  FakeAgent(const FakeAgent&) = delete;
  FakeAgent& operator=(const FakeAgent&) = delete;
  ~FakeAgent() {
    send_signal(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] bool is_ready() const { return is_ready_; }

 private:
  /// The name is made by root, so that it does not tell who listens.
  static void serve(const fs::path& directory, const std::string& answer, uid_t user, int ready) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGPIPE, SIG_IGN);
    const sockaddr_un address = address_of(directory / "control");
    const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool listens =
        ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::chmod(address.sun_path, 0777) == 0 && become_user(user) && ::listen(listener, 16) == 0;
    if (!listens || ::write(ready, "r", 1) != 1) ::raise(SIGKILL);
    const std::string page(65536, 'x');
    while (true) {
      const int client = ::accept(listener, nullptr, nullptr);
      if (client < 0) ::raise(SIGKILL);
      char byte = 0;
      while (byte != '\n' && ::read(client, &byte, 1) == 1) {
      }
      const std::string& text = answer.empty() ? page : answer;
      while (::write(client, text.data(), text.size()) > 0 && answer.empty()) {
      }
      ::close(client);
    }
  }

  pid_t pid_ = -1;
  bool is_ready_ = false;
};

class ControlAccess : public ProcessTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, for a second user";
    fs::permissions(scratch(), fs::perms(0755));
    for (const char* const program : {DDP_LAUNCH, DDP_FAKE_WORKER}) {
      const fs::path copy = scratch() / fs::path(program).filename();
      fs::copy_file(program, copy);
      fs::permissions(copy, fs::perms(0755));
    }
  }
  void TearDown() override {
    ProcessTest::TearDown();
    std::error_code ignored;
    for (const fs::path& place : places())
      fs::remove_all(place, ignored);
  }

  /// /tmp/ddp-UID of the victim and what begins like it.
  [[nodiscard]] std::vector<fs::path> places() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator("/tmp")) {
      if (entry.path().string().starts_with(usual_.string())) found.push_back(entry.path());
    }
    return found;
  }
  std::unique_ptr<Running> start_as_victim(const std::vector<std::string>& words) {
    Command command{.arguments = words_as(victim_),
                    .environment = {{"XDG_RUNTIME_DIR", ""}, {"HOME", "/nonexistent"}}};
    command.arguments.push_back((scratch() / "ddp-launch").string());
    command.arguments.insert(command.arguments.end(), words.begin(), words.end());
    return start(command);
  }
  std::unique_ptr<Running> start_job(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--grace=2s", (scratch() / "fake_worker").string()});
    flags.insert(flags.end(), {"print", "ready", "hold"});
    return start_as_victim(flags);
  }
  /// What the victim's command prints, after it has ended by `code`.
  std::string run(const std::vector<std::string>& words, int code = 0) {
    const auto command = start_as_victim(words);
    EXPECT_EQ(command->wait(), code) << command->err();
    return command->out() + command->err();
  }
  /// Another user makes the victim's place.
  [[nodiscard]] bool squat() const {
    return as_user(kOtherUser, [this] {
      return ::mkdir(usual_.c_str(), 0755) == 0 && ::chmod(usual_.c_str(), 0755) == 0;
    });
  }

  const uid_t victim_ = 20000 + static_cast<uid_t>(::getpid()) % 40000;
  const fs::path usual_ = "/tmp/ddp-" + std::to_string(victim_);
};

TEST_F(ControlAccess, A2_ForgedJobsOfAnotherUserAreNotShown) {
  ASSERT_TRUE(squat());
  ASSERT_TRUE(as_user(kOtherUser, [this] {
    const fs::path entry = usual_ / "forged";
    return ::mkdir(entry.c_str(), 0755) == 0 && ::chmod(entry.c_str(), 0755) == 0;
  }));
  const FakeAgent agent(usual_ / "forged", kForged, kOtherUser);
  ASSERT_TRUE(agent.is_ready());
  const std::string shown = run({"status"});
  EXPECT_THAT(shown,
              AllOf(HasSubstr("no job of yours runs"),
                    HasSubstr(usual_.string() + " belongs to another user (uid 65534)"),
                    Not(HasSubstr("forged")),
                    Not(HasSubstr("\x1b"))));
  EXPECT_THAT(run({"stop"}, 2), HasSubstr("no such job of yours"));
}

TEST_F(ControlAccess, A2_StatusRemovesNothingThroughALink) {
  const fs::path precious = scratch() / "precious";
  fs::create_directory(precious);
  write_file("precious/control", "precious");
  for (const fs::path& path : {precious, precious / "control"})
    ASSERT_EQ(::chown(path.c_str(), victim_, victim_), 0);
  ASSERT_TRUE(squat());
  ASSERT_TRUE(as_user(kOtherUser,
                      [&] { return ::symlink(precious.c_str(), (usual_ / "job").c_str()) == 0; }));
  run({"status"});
  EXPECT_EQ(read_all(precious / "control"), "precious");
}

// The same in a place of our own: what is not a socket of ours stays.
TEST_F(ControlAccess, A2_StatusTidiesSocketsOfOursAlone) {
  for (const fs::path& path : {usual_, usual_ / "file", usual_ / "left"}) {
    fs::create_directory(path);
    ASSERT_EQ(::chown(path.c_str(), victim_, victim_), 0);
    fs::permissions(path, fs::perms(0700));
  }
  const fs::path file = usual_ / "file" / "control";
  fs::copy_file(DDP_FAKE_WORKER, file);
  ASSERT_EQ(::chown(file.c_str(), victim_, victim_), 0);
  fs::create_directory_symlink(usual_ / "file", usual_ / "link");
  {
    const FakeAgent agent(usual_ / "left", kForged, victim_);
    ASSERT_TRUE(agent.is_ready());
    ASSERT_EQ(::chown((usual_ / "left" / "control").c_str(), victim_, victim_), 0);
  }
  EXPECT_THAT(run({"status"}), HasSubstr("no job of yours runs"));
  EXPECT_TRUE(fs::exists(file));
  EXPECT_FALSE(fs::exists(usual_ / "left"));
}

TEST_F(ControlAccess, A2_ASquattedPlaceIsSaidAndAnotherOneIsUsed) {
  enum class How { directory, link, file, open };
  for (const How how : {How::directory, How::link, How::file, How::open}) {
    SCOPED_TRACE(static_cast<int>(how));
    if (how == How::open) {
      ASSERT_TRUE(as_user(victim_, [this] {
        return ::mkdir(usual_.c_str(), 0700) == 0 && ::chmod(usual_.c_str(), 0777) == 0;
      }));
    } else {
      ASSERT_TRUE(how != How::directory || squat());
      ASSERT_TRUE(as_user(kOtherUser, [&] {
        if (how == How::link) return ::symlink(scratch().c_str(), usual_.c_str()) == 0;
        return how == How::directory || ::creat(usual_.c_str(), 0644) >= 0;
      }));
    }
    const auto job = start_job();
    ASSERT_TRUE(job->sees("ready")) << job->err();
    EXPECT_THAT(job->err(), HasSubstr("the control socket and locks of this job are in"));
    EXPECT_EQ(count(job->err(), usual_.string() + " "), 1U) << job->err();
    const auto second = start_job();
    ASSERT_TRUE(second->sees("ready"));
    EXPECT_EQ(places().size(), 2U) << "both use the same other place";
    EXPECT_THAT(run({"status"}),
                AllOf(HasSubstr("pid " + std::to_string(job->pid())),
                      HasSubstr("pid " + std::to_string(second->pid()))));
    for (const auto* const each : {&job, &second}) {
      run({"stop", std::to_string((*each)->pid())});
      EXPECT_EQ((*each)->wait(), 143) << (*each)->err();
    }
    fs::remove_all(usual_);
    for (const fs::path& place : places())
      fs::remove_all(place);
  }
}

// An agent locks its run id in the other place; the squatter leaves; the next agent has the usual
// place again, and must find that lock all the same.
TEST_F(ControlAccess, A2_ASquatterCannotMakeARunStartTwice) {
  ASSERT_TRUE(squat());
  const auto first = start_job({"--rdzv-id=mine"});
  ASSERT_TRUE(first->sees("ready"));
  fs::remove_all(usual_);
  const auto second = start_job({"--rdzv-id=mine"});
  EXPECT_EQ(second->wait(), 202);
  EXPECT_THAT(second->err(), HasSubstr("locked by pid " + std::to_string(first->pid())));
  run({"stop", "mine"});
  EXPECT_EQ(first->wait(), 143);
  const auto third = start_job({"--rdzv-id=mine"});
  EXPECT_TRUE(third->sees("ready")) << third->err();
  third->signal(SIGTERM);
  EXPECT_EQ(third->wait(), 143);
}

TEST_F(ControlAccess, A2_AnAgentAnswersItsUserAlone) {
  const auto job = start_job();
  ASSERT_TRUE(job->sees("ready"));
  fs::path directory;
  for (const auto& entry : fs::directory_iterator(usual_))
    directory = entry.path();
  // Whatever somebody has done to the modes.
  for (const fs::path& path : {usual_, directory, directory / "control"})
    fs::permissions(path, fs::perms(0777));
  const sockaddr_un address = address_of(directory / "control");
  const auto is_answered = [&] {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      return false;
    }
    char answer = 0;
    return ::send(fd, "stop\n", 5, MSG_NOSIGNAL) == 5 && ::read(fd, &answer, 1) == 1;
  };
  EXPECT_FALSE(as_user(kOtherUser, is_answered));
  EXPECT_TRUE(lives_on(job->pid()));
  EXPECT_TRUE(is_answered()) << "root may do what it likes";
  EXPECT_EQ(job->wait(), 143);
}

TEST_F(ControlAccess, A2_AnAnswerOfAnotherUserIsNotBelieved) {
  fs::permissions(scratch(), fs::perms(0700));
  std::string why_not;
  const auto directory = launcher::PrivateDir::open(scratch(), why_not);
  ASSERT_TRUE(directory) << why_not;
  {
    const FakeAgent own(scratch(), "yes", 0);
    ASSERT_TRUE(own.is_ready());
    EXPECT_EQ(launcher::ask(*directory, "status"), "yes");
  }
  EXPECT_TRUE(launcher::is_abandoned(*directory));
  fs::remove(scratch() / "control");
  const FakeAgent other(scratch(), "no", kOtherUser);
  ASSERT_TRUE(other.is_ready());
  EXPECT_EQ(launcher::ask(*directory, "status"), std::nullopt);
}

TEST_F(ControlAccess, A2_AnEndlessAnswerIsNoAnswer) {
  fs::permissions(scratch(), fs::perms(0700));
  std::string why_not;
  const auto directory = launcher::PrivateDir::open(scratch(), why_not);
  ASSERT_TRUE(directory) << why_not;
  const FakeAgent agent(scratch(), "", 0);
  ASSERT_TRUE(agent.is_ready());
  const std::size_t before = status_number(::getpid(), "VmHWM");
  EXPECT_EQ(launcher::ask(*directory, "status"), std::nullopt);
  if (!kInstrumented) {
    EXPECT_LE(status_number(::getpid(), "VmHWM") - before, 4 * launcher::kLongestAnswer >> 10);
  }
}

TEST_F(ControlAccess, A2_AnAnswerOfAWrongShapeIsSaidAndNoReasonToDie) {
  fs::create_directories(scratch() / "ddp" / "odd");
  for (const char* const name : {"ddp", "ddp/odd"})
    fs::permissions(scratch() / name, fs::perms(0700));
  for (const char* const answer : {"{}", "[]", R"({"run":17,"workers":[1]})", "nonsense"}) {
    const FakeAgent agent(scratch() / "ddp" / "odd", answer, 0);
    ASSERT_TRUE(agent.is_ready());
    for (const char* const word : {"status", "stop"}) {
      const auto command = start(Command{.arguments = {DDP_LAUNCH, word},
                                         .environment = {{"XDG_RUNTIME_DIR", scratch().string()}}});
      EXPECT_EQ(command->wait(), std::string_view(word) == "status" ? 0 : 2) << command->err();
      EXPECT_THAT(command->err(), HasSubstr("the agent odd does not answer properly"));
    }
    fs::remove(scratch() / "ddp" / "odd" / "control");
  }
}

}  // namespace
}  // namespace ddp::test
