#include "common/files/similar_file.h"

#include <gtest/gtest.h>

#include "scratch.h"

namespace ddp {
namespace {

TEST(SimilarFile, ASlipNamesTheFileOfTheSameKind) {
  const Scratch scratch;
  for (const char* const name : {"train.py", "trial.yaml", "b.py", "digits"})
    scratch.write(name, "");
  const auto suggest = [&](const std::string& name) {
    const std::string text = suggest_file(scratch.path() / name);
    const std::size_t at = text.find(scratch.path().string());
    return at == text.npos ? text : text.substr(at + scratch.path().string().size() + 1);
  };
  EXPECT_EQ(suggest("trian.py"), "train.py?");
  EXPECT_EQ(suggest("trail.yaml"), "trial.yaml?");
  EXPECT_EQ(suggest("digist"), "digits?");
  EXPECT_EQ(suggest("train.py"), ".");  // it is there, and wrong for another reason
  EXPECT_EQ(suggest("trian.txt"), ".");
  EXPECT_EQ(suggest("a.py"), ".");  // so short that all are near
  EXPECT_EQ(suggest("no/trian.py"), ".");
  EXPECT_EQ(suggest_file("/no/such/place"), ".");
  EXPECT_EQ(suggest_file(""), ".");
}

}  // namespace
}  // namespace ddp
