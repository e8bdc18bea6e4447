#include "launcher/plan/web/web_request.h"

#include <gtest/gtest.h>

namespace ddp::launcher {
namespace {

constexpr std::string_view kToken = "correct horse";

bool is_token(std::string_view text) {
  return text == kToken;
}

WebRequest get(std::string target, std::string host = "127.0.0.1:8080") {
  return {"GET", std::move(target), std::move(host), ""};
}

TEST(WebRequest, TheUserOfThisNodeNeedsNoToken) {
  EXPECT_EQ(decide(get("/"), true, is_token), (WebDecision{200, WebPart::page, ""}));
  EXPECT_EQ(decide(get("/metrics?x=1"), true, is_token).part, WebPart::metrics);
  EXPECT_EQ(decide(get("/api/status"), true, is_token).part, WebPart::status);
  EXPECT_EQ(decide(get("/events"), true, is_token).part, WebPart::events);
  EXPECT_EQ(decide(get("/api"), true, is_token).status, 404);
  EXPECT_EQ(decide(get("//"), true, is_token).status, 404);
  EXPECT_EQ(decide(get(""), true, is_token).status, 404);
}

TEST(WebRequest, EverybodyElseDoes) {
  EXPECT_EQ(decide(get("/"), false, is_token).status, 401);
  EXPECT_EQ(decide(get("/?token=wrong"), false, is_token).status, 401);
  EXPECT_EQ(decide(get("/?token="), false, is_token).status, 401);
  EXPECT_EQ(decide(get("/x?token=correct%20horse"), false, is_token).status, 404);
  EXPECT_EQ(decide(get("/?a=b&token=correct%20horse", "node-a"), false, is_token).status, 200);
  WebRequest by_header = get("/", "node-a");
  by_header.authorization = "bearer correct horse";
  EXPECT_EQ(decide(by_header, false, is_token).status, 200);
  by_header.authorization = "Basic correct horse";
  EXPECT_EQ(decide(by_header, false, is_token).status, 401);
}

TEST(WebRequest, AWrongTokenIsSaidToTheUserToo) {
  EXPECT_EQ(decide(get("/?token=wrong"), true, is_token).status, 401);
}

TEST(WebRequest, AJobWithoutATokenHasNone) {
  const IsToken none = [](std::string_view) { return false; };
  EXPECT_EQ(decide(get("/?token="), false, none).status, 401);
}

// A page of somebody else that lets its name point to 127.0.0.1.
TEST(WebRequest, ANameThatMayBeRebound) {
  EXPECT_EQ(decide(get("/", "evil.example:8080"), true, is_token).status, 403);
  EXPECT_EQ(decide(get("/", ""), true, is_token).status, 403);
  EXPECT_EQ(decide(get("/?token=correct%20horse", "evil.example"), true, is_token).status, 200);
}

TEST(WebRequest, AddressesAndLocalhostAreSafe) {
  for (const char* const host :
       {"localhost", "LOCALHOST:1", "127.0.0.1:65535", "127.0.0.1:", "10.1.2.3:80", "[::1]:80"})
    EXPECT_TRUE(is_safe_host(host)) << host;
  for (const char* const host :
       {"", "localhost.evil.example", "127.0.0.1.evil.example", "[evil]", "[::1", "::1", "1"})
    EXPECT_FALSE(is_safe_host(host)) << host;
}

TEST(WebRequest, AnInvalidHostIsABadRequest) {
  for (const char* const host : {"127.0.0.1@evil",
                                 "[::1].evil.com",
                                 "[::1]@evil",
                                 "127.0.0.1:80@evil",
                                 "localhost:port",
                                 "localhost:1234567",
                                 "127.0.0.1:99999",
                                 "localhost:65536",
                                 "[::1]:65536",
                                 "user:word@127.0.0.1",
                                 "127.0.0.1 evil",
                                 "127.0.0.1,evil",
                                 ":80",
                                 "::1",
                                 "[evil]"}) {
    EXPECT_FALSE(is_host(host)) << host;
    EXPECT_EQ(decide(get("/", host), true, is_token).status, 400) << host;
    EXPECT_EQ(decide(get("/?token=correct%20horse", host), true, is_token).status, 400) << host;
  }
  WebRequest request = get("/");
  request.hosts = 2;
  EXPECT_EQ(decide(request, true, is_token).status, 400);
}

TEST(WebRequest, OnlyGetAndHeadAreServed) {
  for (const char* const method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get", ""}) {
    WebRequest request = get("/");
    request.method = method;
    EXPECT_EQ(decide(request, true, is_token).status, 405) << method;
  }
  WebRequest head = get("/metrics");
  head.method = "HEAD";
  EXPECT_EQ(decide(head, true, is_token).status, 200);
}

TEST(WebRequest, TokensAreDecoded) {
  EXPECT_EQ(presented_token(get("/?token=a%2Bb%3d%")), "a+b=%");
  EXPECT_EQ(presented_token(get("/?token=%4")), "%4");
  EXPECT_EQ(presented_token(get("/?token=%zz")), "%zz");
  EXPECT_EQ(presented_token(get("/?xtoken=1&token=2")), "2");
  EXPECT_EQ(presented_token(get("/?&&")), std::nullopt);
  EXPECT_EQ(presented_token(get("/token=1")), std::nullopt);
}

}  // namespace
}  // namespace ddp::launcher
