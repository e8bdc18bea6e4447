#include "launcher/plan/web/web_address.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

TEST(WebAddress, APortAloneIsOfLoopback) {
  const auto read = parse_web_address("8080");
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, (WebAddress{"", 8080}));
  EXPECT_TRUE(read->is_loopback());
  EXPECT_EQ(page_url(*read, 8080, "a", "127.0.0.1"), "http://127.0.0.1:8080/");
  EXPECT_EQ(page_url(*read, 8080, "a", "::1"), "http://[::1]:8080/");
  EXPECT_EQ(parse_web_address("localhost:0"), (WebAddress{"", 0}));
}

TEST(WebAddress, AnAddressMayStandBeforeIt) {
  EXPECT_EQ(parse_web_address("10.0.0.1:80"), (WebAddress{"10.0.0.1", 80}));
  EXPECT_EQ(parse_web_address("[fd00::1]:80"), (WebAddress{"fd00::1", 80}));
  EXPECT_FALSE(parse_web_address("0.0.0.0:80")->is_loopback());
  EXPECT_FALSE(parse_web_address("[::]:80")->is_loopback());
  EXPECT_TRUE(parse_web_address("[::1]:80")->is_loopback());
  EXPECT_TRUE(parse_web_address("127.0.0.2:80")->is_loopback());
  EXPECT_EQ(page_url(WebAddress{"0.0.0.0", 0}, 81, "node-a", "::1"), "http://node-a:81/");
  EXPECT_EQ(page_url(WebAddress{"fd00::1", 80}, 80, "node-a", "127.0.0.1"), "http://[fd00::1]:80/");
}

TEST(WebAddress, OtherTextsAreRefused) {
  for (const char* const text : {"",
                                 ":",
                                 "x",
                                 "80x",
                                 "-1",
                                 "65536",
                                 "1.2.3:80",
                                 "host:80",
                                 "::1:80",
                                 "[1.2.3.4]:80",
                                 "1.2.3.4:"})
    EXPECT_FALSE(parse_web_address(text)) << text;
}

}  // namespace
}  // namespace ddp::launcher
