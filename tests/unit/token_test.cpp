#include "launcher/run/token.h"
#include "common/job/resolve_job.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "common/error.h"
#include "tests/unit/scratch.h"

namespace ddp::launcher {
namespace {

using testing::HasSubstr;

const std::string kHexToken(64, 'a');
const std::string kOther(64, 'b');

class Token : public testing::Test {
 protected:
  std::string file(const std::string& text, mode_t mode = 0600) {
    const std::string path = (scratch_.path() / "token").string();
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  /// As with --token-file `path` (empty: without it), launch.token_file and DDP_TOKEN.
  static std::string find(const std::string& flag,
                          const std::string& key = "",
                          const std::string& variable = "") {
    Options options;
    if (!flag.empty()) options.flags.push_back({"launch.token_file", flag, "--token-file"});
    std::vector<JobOverride> layers;
    layers.push_back({"data.batch_per_rank", "1", "default"});
    if (!key.empty()) layers.push_back({"launch.token_file", key, "job.yaml"});
    layers.insert(layers.end(), options.flags.begin(), options.flags.end());
    Environment environment;
    if (!variable.empty()) environment["DDP_TOKEN"] = variable;
    const Secret taken = take_token(environment);
    EXPECT_THAT(environment, testing::IsEmpty());
    return std::string(find_token(options, resolve_job(nullptr, layers), taken).text());
  }
  static std::string problem(const std::string& flag, const std::string& variable = "") {
    try {
      return "none: " + find(flag, "", variable);
    } catch (const UsageError& error) {
      return error.what();
    }
  }
  Scratch scratch_;
};

TEST_F(Token, ComesFromTheFileOrTheVariableWithoutBlanksAtItsEnds) {
  EXPECT_EQ(find(""), "");
  EXPECT_EQ(find(file("\n " + kHexToken + " \r\n")), kHexToken);
  EXPECT_EQ(find("", "", kHexToken + "\n"), kHexToken);
  EXPECT_EQ(find("", file(kHexToken)), kHexToken);
}

TEST_F(Token, AFlagBeatsTheVariableWhichBeatsTheJobFile) {
  EXPECT_EQ(find(file(kHexToken), "", kOther), kHexToken);
  EXPECT_EQ(find("", file(kHexToken), kOther), kOther);
}

TEST_F(Token, AFileThatOthersCanReadIsRefused) {
  for (const mode_t mode : {0640U, 0604U, 0620U, 0777U})
    EXPECT_THAT(problem(file(kHexToken, mode)), HasSubstr("chmod 600")) << std::oct << mode;
  EXPECT_EQ(problem(file(kHexToken, 0400)), "none: " + kHexToken);
}

TEST_F(Token, AFileWithoutATokenIsRefused) {
  EXPECT_THAT(problem("/no/such/file"), HasSubstr("No such file"));
  EXPECT_THAT(problem("/dev/null"), HasSubstr("not a regular file"));
  EXPECT_THAT(problem(file("")), HasSubstr("0 characters"));
  EXPECT_THAT(problem(file("secret")), HasSubstr("6 characters, of 32"));
  EXPECT_THAT(problem(file(std::string(5000, 'a'))), HasSubstr("too many"));
  EXPECT_THAT(problem(file(kHexToken + " " + kHexToken)), HasSubstr("blank"));
  EXPECT_THAT(problem(file(kHexToken + "\xff" + kHexToken)), HasSubstr("blank"));
  EXPECT_THAT(problem("", "secret"), HasSubstr("DDP_TOKEN: the token has 6"));
}

}  // namespace
}  // namespace ddp::launcher
