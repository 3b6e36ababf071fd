// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

#include <gtest/gtest.h>

#include <random>

#include "http/endpoint.h"
#include "http/router.h"
#include "runtime/executor.h"

namespace leat {
namespace {

TEST(HttpTarget, WhatIsEncodedIsParsed) {
  unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::string path = "/", value;
    for (int i = 0; i < 20; ++i) path += static_cast<char>(1 + random() % 255);
    for (int i = 0; i < 20; ++i) value += static_cast<char>(1 + random() % 255);
    HttpRequest request;
    ASSERT_TRUE(parse_target(make_target(path, {{"path", value}, {"b", ""}}), request));
    EXPECT_EQ(request.path, path);
    EXPECT_EQ(request.query, (std::map<std::string, std::string>{{"b", ""}, {"path", value}}));
  }
}

TEST(HttpTarget, BrokenOnesAreRefused) {
  HttpRequest request;
  for (const char* target : {"", "a", "*", "/%", "/%4", "/%zz", "/%00", "/a?b=%0", "http://x/"}) {
    EXPECT_FALSE(parse_target(target, request)) << target;
  }
  EXPECT_TRUE(parse_target("/a+b?c=d+e&&f", request));
  EXPECT_EQ(request.path, "/a+b");
  EXPECT_EQ(request.query["c"], "d e");
  EXPECT_EQ(request.query["f"], "");
}

TEST(HttpHeaders, NamesCompareWithoutCase) {
  HttpHeaders headers;
  headers.set("Content-Type", "a");
  headers.set("content-type", "b");
  EXPECT_EQ(headers.find("CONTENT-TYPE"), "b");
  EXPECT_EQ(headers.all().size(), 1u);
  EXPECT_EQ(headers.find("other"), std::nullopt);
}

TEST(HttpResponse, AFailureIsJsonWhateverItsMessageHolds) {
  HttpResponse response = HttpResponse::failure(404, "not_found", "no \"x\"\n\xff");
  EXPECT_EQ(response.body,
            "{\"error\":{\"code\":\"not_found\",\"message\":\"no \\\"x\\\"\\n\xef\xbf\xbd\"}}");
}

TEST(HttpEndpoint, FormsThatPeopleWrite) {
  EXPECT_EQ(HttpEndpoint::parse("127.0.0.1:9464")->to_string(), "127.0.0.1:9464");
  EXPECT_EQ(HttpEndpoint::parse("[::1]:80")->host, "::1");
  EXPECT_EQ(HttpEndpoint::parse("[::1]:80")->to_string(), "[::1]:80");
  EXPECT_EQ(HttpEndpoint::parse("unix:/run/x.sock")->unix_path, "/run/x.sock");
  for (const char* text :
       {"", ":80", "host", "host:", "host:99999", "::1:80", "host:8x", "unix:a"}) {
    EXPECT_FALSE(HttpEndpoint::parse(text)) << text;
  }
  EXPECT_TRUE(HttpEndpoint::parse("localhost:1")->local());
  EXPECT_FALSE(HttpEndpoint::parse("0.0.0.0:1")->local());
}

Task<HttpResponse> echo_id(Context, HttpRequest request) {
  co_return HttpResponse::text(200, request.params["id"]);
}

TEST(HttpRouter, MatchesComponentsAndSaysWhatIsMissing) {
  Executor executor;
  HttpRouter router;
  router.add("GET", "/v1/jobs/{id}", &echo_id);
  router.add("DELETE", "/v1/jobs/{id}", &echo_id);
  auto ask = [&](const char* method, const char* path) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    return executor.block_on(router.handle(Context::background(), std::move(request)));
  };
  EXPECT_EQ(ask("GET", "/v1/jobs/7").body, "7");
  EXPECT_EQ(ask("GET", "/v1/jobs").status, 404);
  EXPECT_EQ(ask("GET", "/v1/jobs/").status, 404);
  EXPECT_EQ(ask("GET", "/v1/jobs/7/8").status, 404);
  HttpResponse refused = ask("PUT", "/v1/jobs/7");
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(refused.headers.find("allow"), "GET, DELETE");
}

}  // namespace
}  // namespace leat
