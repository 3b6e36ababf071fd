// SPDX-License-Identifier: Apache-2.0
#include "frontends/console/console_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontends/console/console_page.h"
#include "http/client.h"
#include "http/server/server.h"
#include "runtime/executor.h"

namespace leat {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kToken(64, 'a');

Task<HttpResponse> echo(Context, HttpRequest request) {
  co_return HttpResponse::json(
      200, fmt::format("\"{} {} {}\"", request.method, request.path, request.query["path"]));
}

// The control socket's routes that the tests use.
HttpRouter control_routes() {
  HttpRouter router;
  for (const char* path :
       {"/v1/status",    "/v1/history",       "/v1/mounts",      "/v1/ls",
        "/v1/stat",      "/v1/below",         "/v1/cat",         "/v1/findings",
        "/v1/errors",    "/v1/slow",          "/v1/jobs",        "/v1/jobs/{id}",
        "/v1/snapshots", "/v1/cache/objects", "/v1/cache/evict", "/v1/shutdown",
        "/v1/upgrade",   "/v1/mounts/change", "/v1/mounts/move", "/v1/snapshots/use"}) {
    for (const char* method : {"GET", "POST", "DELETE"}) router.add(method, path, &echo);
  }
  return router;
}

class ConsoleServerTest : public testing::Test {
 protected:
  HttpResponse send(HttpRequest request) {
    HttpRouter router = door_.router();
    return executor_.block_on(router.handle(Context::background(), std::move(request)));
  }
  HttpResponse ask(std::string method, std::string path, std::string token = kToken,
                   std::string host = "127.0.0.1:9464") {
    HttpRequest request{.method = std::move(method), .path = std::move(path)};
    request.headers.set("Host", std::move(host));
    if (!token.empty()) request.headers.set("Authorization", "Bearer " + token);
    return send(std::move(request));
  }
  HttpResponse start(std::string body) {
    HttpRequest request{.method = "POST", .path = "/v1/jobs", .body = std::move(body)};
    request.headers.set("Host", "localhost");
    request.headers.set("Authorization", "Bearer " + kToken);
    return send(std::move(request));
  }

  Executor executor_;
  ConsoleServer door_{control_routes(), kToken};
};

TEST_F(ConsoleServerTest, WhatThePageUsesNeedsTheToken) {
  for (auto [method, path] : {std::pair("GET", "/v1/status"),
                              {"GET", "/v1/history"},
                              {"GET", "/v1/mounts"},
                              {"GET", "/v1/ls"},
                              {"GET", "/v1/stat"},
                              {"GET", "/v1/below"},
                              {"GET", "/v1/findings"},
                              {"GET", "/v1/errors"},
                              {"GET", "/v1/jobs"},
                              {"GET", "/v1/jobs/1"},
                              {"DELETE", "/v1/jobs/1"},
                              {"GET", "/v1/snapshots"},
                              {"GET", "/v1/cache/objects"}}) {
    EXPECT_EQ(ask(method, path).status, 200) << method << path;
    EXPECT_EQ(ask(method, path).body, fmt::format("\"{} {} \"", method, path));
    HttpResponse refused = ask(method, path, "");
    EXPECT_EQ(refused.status, 401) << method << path;
    EXPECT_THAT(refused.body, HasSubstr("\"permission_denied\""));
    EXPECT_THAT(refused.body, HasSubstr("leat console"));
    EXPECT_EQ(refused.headers.find("WWW-Authenticate"), "Bearer realm=\"leat\"");
  }
}

TEST_F(ConsoleServerTest, OnlyTheWholeTokenIsTheToken) {
  for (const std::string& token :
       {std::string(63, 'a'), std::string(65, 'a'), std::string(63, 'a') + 'b',
        std::string(64, 'A'), " " + std::string(64, 'a'), std::string(64, 'a') + " "}) {
    EXPECT_EQ(ask("GET", "/v1/status", token).status, 401) << token;
  }
  for (const std::string& field : {kToken, "bearer " + kToken, "Basic " + kToken, std::string()}) {
    HttpRequest request{.path = "/v1/status"};
    request.headers.set("Host", "localhost");
    request.headers.set("Authorization", field);
    EXPECT_EQ(send(request).status, 401) << field;
  }
  // A token in the target or in a cookie is refused, because logs and other pages could see it.
  HttpRequest request{.path = "/v1/status", .query = {{"token", kToken}}};
  request.headers.set("Host", "localhost");
  request.headers.set("Cookie", "token=" + kToken);
  EXPECT_EQ(send(request).status, 401);
}

TEST_F(ConsoleServerTest, WhatAConsoleMayNotIsRefused) {
  for (auto [method, path] : {std::pair("GET", "/v1/cat"),
                              {"POST", "/v1/shutdown"},
                              {"POST", "/v1/upgrade"},
                              {"POST", "/v1/mounts"},
                              {"DELETE", "/v1/mounts"},
                              {"POST", "/v1/mounts/change"},
                              {"POST", "/v1/mounts/move"},
                              {"POST", "/v1/cache/evict"},
                              {"DELETE", "/v1/snapshots"},
                              {"POST", "/v1/snapshots/use"},
                              {"GET", "/v1/later"},
                              {"GET", "/v1/"},
                              {"GET", "/v1"},
                              {"PUT", "/v1/jobs"}}) {
    HttpResponse refused = ask(method, path);
    EXPECT_EQ(refused.status, 403) << method << path;
    EXPECT_THAT(refused.body, HasSubstr("the console does not offer"));
    // Without the token not even that is shown.
    EXPECT_EQ(ask(method, path, "").status, 401) << method << path;
  }
}

TEST_F(ConsoleServerTest, OnlyCacheJobsCanBeStarted) {
  for (const char* kind : {"load", "free", "refresh", "verify"}) {
    EXPECT_EQ(start(fmt::format(R"({{"kind":"{}","path":"/m"}})", kind)).status, 200) << kind;
  }
  for (const char* body : {R"({"kind":"snapshot","path":"/m","name":"n"})", R"({"kind":7})",
                           R"({"path":"/m"})", "[]", "7"}) {
    EXPECT_EQ(start(body).status, 403) << body;
  }
  EXPECT_EQ(start("no JSON").status, 400);
}

TEST_F(ConsoleServerTest, AForeignHostIsRefusedWhateverItAsks) {
  for (const char* path : {"/", "/console.js", "/v1/status", "/nothing", "/metrics", "/healthz"}) {
    HttpResponse refused = ask("GET", path, kToken, "rebound.example:9464");
    EXPECT_EQ(refused.status, 403) << path;
    EXPECT_THAT(refused.body, HasSubstr("leat console"));
    HttpRequest none{.path = path};
    EXPECT_EQ(send(none).status, 403) << path;
  }
}

TEST_F(ConsoleServerTest, MetricsAndHealthNeedNoToken) {
  for (const char* path : {"/metrics", "/healthz"}) {
    EXPECT_EQ(ask("GET", path, "").status, 200) << path;
    EXPECT_EQ(ask("GET", path, "", "localhost").status, 200) << path;
    EXPECT_EQ(ask("POST", path, "").status, 405) << path;
  }
}

TEST_F(ConsoleServerTest, NamesOfTheConfigurationAreTaken) {
  ConsoleServer named(control_routes(), kToken, {"leat.lan"});
  HttpRouter router = named.router();
  for (auto [host, status] : {std::pair("leat.lan", 200),
                              {"LEAT.LAN:443", 200},
                              {"127.0.0.1:9464", 200},
                              {"evil.leat.lan", 403}}) {
    HttpRequest request{.path = "/metrics"};
    request.headers.set("Host", host);
    EXPECT_EQ(executor_.block_on(router.handle(Context::background(), request)).status, status)
        << host;
  }
}

TEST_F(ConsoleServerTest, WithoutATokenThereIsNoConsole) {
  ConsoleServer without(control_routes(), "");
  HttpRouter router = without.router();
  for (const char* path : {"/", "/v1/status"}) {
    HttpRequest request{.path = path};
    request.headers.set("Host", "localhost");
    request.headers.set("Authorization", "Bearer ");
    EXPECT_EQ(executor_.block_on(router.handle(Context::background(), request)).status, 404)
        << path;
  }
  HttpRequest metrics{.path = "/metrics"};
  metrics.headers.set("Host", "localhost");
  EXPECT_EQ(executor_.block_on(router.handle(Context::background(), metrics)).status, 200);
}

TEST_F(ConsoleServerTest, EveryResponseHasSecurityHeaders) {
  for (const HttpResponse& response :
       {ask("GET", "/"), ask("GET", "/console.js"), ask("GET", "/v1/status"),
        ask("GET", "/v1/status", ""), ask("GET", "/nothing"), ask("POST", "/"),
        ask("GET", "/", kToken, "evil.example")}) {
    const std::string policy(response.headers.find("Content-Security-Policy").value_or(""));
    EXPECT_THAT(policy, HasSubstr("default-src 'self'"));
    EXPECT_THAT(policy, HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(policy, HasSubstr("require-trusted-types-for 'script'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_EQ(response.headers.find("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(response.headers.find("Referrer-Policy"), "no-referrer");
    EXPECT_FALSE(response.headers.find("Access-Control-Allow-Origin"));
    EXPECT_FALSE(response.headers.find("Set-Cookie"));
    EXPECT_THAT(response.body, Not(HasSubstr(kToken)));
  }
  EXPECT_EQ(ask("GET", "/v1/status").headers.find("Cache-Control"), "no-store");
}

TEST_F(ConsoleServerTest, ThePageIsThereWithoutAToken) {
  for (const PageFile& file : page_files()) {
    HttpResponse page = ask("GET", file.path, "");
    EXPECT_EQ(page.status, 200) << file.path;
    EXPECT_EQ(page.headers.find("Content-Type"), file.type);
    EXPECT_FALSE(page.headers.find("Content-Encoding"));
    EXPECT_EQ(page.body.size(), file.plain.size());
    EXPECT_EQ(ask("HEAD", file.path, "").status, 200);
    EXPECT_EQ(ask("POST", file.path).status, 405);
    EXPECT_EQ(ask("OPTIONS", file.path).headers.find("Allow"), "GET, HEAD");
  }
  EXPECT_EQ(ask("GET", "/../console.token").status, 404);
  EXPECT_THAT(ask("GET", "/").body, Not(HasSubstr("<script>")));
}

TEST_F(ConsoleServerTest, APageThatTheBrowserHasIsNotSentAgain) {
  HttpRequest request{.path = "/console.js"};
  request.headers.set("Host", "[::1]:9464");
  HttpResponse plain = send(request);
  const std::string tag(plain.headers.find("ETag").value_or(""));
  EXPECT_THAT(tag, testing::MatchesRegex("\"[0-9a-f]+\""));
  EXPECT_EQ(plain.headers.find("Cache-Control"), "no-cache");
  for (const std::string& has : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    request.headers.set("If-None-Match", has);
    EXPECT_EQ(send(request).status, 304) << has;
    EXPECT_EQ(send(request).headers.find("ETag"), tag);
    EXPECT_EQ(send(request).body, "");
  }
  request.headers.set("If-None-Match", "\"other\"");
  EXPECT_EQ(send(request).status, 200);
  // The compressed form has another tag.
  request.headers.set("If-None-Match", tag);
  request.headers.set("Accept-Encoding", "br, gzip");
  HttpResponse packed = send(request);
  EXPECT_EQ(packed.status, 200);
  EXPECT_EQ(packed.headers.find("Content-Encoding"), "gzip");
  EXPECT_LT(packed.body.size(), plain.body.size() / 2);
}

TEST_F(ConsoleServerTest, GzipIsForThoseWhoTakeIt) {
  for (auto [field, packed] : {std::pair("gzip", true),
                               {"deflate, gzip;q=0.5", true},
                               {" gzip ", true},
                               {"gzip;q=0", false},
                               {"gzip;q=0.0", false},
                               {"br", false},
                               {"x-gzip", false},
                               {"", false}}) {
    HttpRequest request{.path = "/"};
    request.headers.set("Host", "localhost");
    request.headers.set("Accept-Encoding", field);
    EXPECT_EQ(send(request).headers.find("Content-Encoding").has_value(), packed) << field;
  }
}

TEST_F(ConsoleServerTest, AtASocketHeadHasALengthAndNoBody) {
  auto server =
      *HttpServer::start(*HttpEndpoint::parse("127.0.0.1:0"), door_.router(), {}, executor_);
  HttpClient client(server->endpoint());
  HttpRequest request{.method = "GET", .path = "/console.css"};
  request.headers.set("Host", "localhost");
  auto page = executor_.block_on(client.request(Context::background(), request));
  ASSERT_TRUE(page) << page.error().to_string();
  EXPECT_EQ(page->status, 200);
  request.headers.set("If-None-Match", std::string(page->headers.find("ETag").value_or("")));
  auto same = executor_.block_on(client.request(Context::background(), request));
  ASSERT_TRUE(same) << same.error().to_string();
  EXPECT_EQ(same->status, 304);
  executor_.block_on(server->stop());
}

}  // namespace
}  // namespace leat
