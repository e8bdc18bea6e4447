#include "common/report/html.h"

#include <gtest/gtest.h>

#include <limits>

namespace ddp {
namespace {

TEST(Html, TextIsEscaped) {
  EXPECT_EQ(escape("<script>alert('1 & \"2\"')</script>"),
            "&lt;script&gt;alert(&#39;1 &amp; &quot;2&quot;&#39;)&lt;/script&gt;");
  EXPECT_EQ(escape("a\x1b[31m\x01\nb"), "a?[31m?\nb");
  EXPECT_EQ(escape("a\u202eb\u009bc\u2069"), "a?b?c?");
  EXPECT_EQ(escape("\xff\xc3(ok\xc3\xa9"), "\xef\xbf\xbd\xef\xbf\xbd(ok\xc3\xa9");
  EXPECT_EQ(element("p", "<b>", "x"), "<p class=\"x\">&lt;b&gt;</p>");
  EXPECT_NE(html_page("</title><script>", "").find("&lt;/title&gt;&lt;script&gt;"),
            std::string::npos);
}

TEST(Html, APageLoadsNothingAndRunsNothing) {
  const std::string page = html_page("run", "<p>text</p>");
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("http"), page.find("http-equiv")) << "no address of anything";
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(page.find("prefers-color-scheme:dark"), std::string::npos);
}

TEST(Html, NumbersAreForPeople) {
  EXPECT_EQ(metric_number("test_accuracy", 0.975), "97.50 %");
  EXPECT_EQ(metric_number("test_loss", 0.08621), "0.0862");
  EXPECT_EQ(metric_number("test_loss", 1.234e-7), "1.234e-07");
  EXPECT_EQ(metric_number("test_loss", std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(short_number(std::numeric_limits<double>::infinity()), "-");
  EXPECT_EQ(loss_html(0.08621), "0.0862");
  EXPECT_EQ(loss_html(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(loss_html(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(grouped(1234567),
            "1\xe2\x80\xaf"
            "234\xe2\x80\xaf"
            "567");
  EXPECT_EQ(grouped(-1000),
            "-1\xe2\x80\xaf"
            "000");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(time_text(5.94), "5.9 s");
  EXPECT_EQ(time_text(124), "2 min 04 s");
  EXPECT_EQ(time_text(3 * 3600 + 5 * 60), "3 h 05 min");
  EXPECT_EQ(time_text(-1), "-");
}

}  // namespace
}  // namespace ddp
