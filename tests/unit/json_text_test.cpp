#include "common/text/json_text.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cmath>

namespace ddp {
namespace {

TEST(JsonText, NumbersAreWrittenAsPeopleWriteThem) {
  const boost::json::object object{
      {"seconds", 4.239884783}, {"share", 0.995}, {"step", 7}, {"loss", std::nan("")}};
  EXPECT_EQ(json_text(object), R"({"seconds":4.239884783,"share":0.995,"step":7,"loss":null})");
  EXPECT_EQ(json_text(boost::json::array{0.0, 1e300, true, nullptr, "a\"\n"}),
            R"([0,1e+300,true,null,"a\"\n"])");
}

TEST(JsonText, BytesThatAreNotUtf8BecomeText) {
  EXPECT_EQ(json_utf8("caf\xc3\xa9\n"), "caf\xc3\xa9\n");
  const std::string mended = json_utf8("caf\xe9.png");
  EXPECT_EQ(boost::json::parse(json_text(boost::json::string(mended))).as_string(), mended);
}

TEST(JsonText, NumbersRoundTrip) {
  for (const double number : {1.0 / 3, 5e-324, -1e20, 123456789.125})
    EXPECT_EQ(boost::json::parse(json_text(number)).to_number<double>(), number);
}

}  // namespace
}  // namespace ddp
