// SPDX-License-Identifier: Apache-2.0
// Tests bodies received into memory, and bodies sent from memory, files and producers.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <random>

#include "base/id128.h"
#include "http/client.h"
#include "http/raw_sockets_test.h"
#include "http/server/server.h"
#include "runtime/blocking_pool.h"
#include "runtime/disk.h"
#include "runtime/page_cache.h"
#include "runtime/shared_promise.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

std::string pattern(size_t size) {
  std::string text(size, '\0');
  std::mt19937 random(7);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// An unlinked file.
std::shared_ptr<File> make_file(const std::string& content) {
  auto file = std::make_shared<File>(
      ::open(testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  EXPECT_EQ(::pwrite(file->fd(), content.data(), content.size(), 0),
            static_cast<ssize_t>(content.size()));
  return file;
}

HttpResponse of_file(std::shared_ptr<File> file, uint64_t offset, uint64_t size) {
  HttpResponse response;
  const int fd = file->fd();
  response.file = HttpFileBody{.owner = std::move(file), .fd = fd, .offset = offset, .size = size};
  return response;
}

Task<HttpResponse> at_once(HttpResponse response, Context, HttpRequest) {
  co_return response;
}

Task<Result<>> produce(std::vector<std::string> parts, Result<> end,
                       std::shared_ptr<BodyWriter> writer) {
  for (const std::string& part : parts) {
    Result<> written = co_await writer->write(Bytes::copy_of(part));
    if (!written) co_return written;
  }
  co_return end;
}

HttpResponse streamed(uint64_t size, std::vector<std::string> parts, Result<> end = {}) {
  HttpResponse response;
  response.stream_bytes = size;
  response.stream = [parts = std::move(parts), end](std::shared_ptr<BodyWriter> writer) {
    return produce(parts, end, std::move(writer));
  };
  return response;
}

class HttpBodiesTest : public testing::Test {
 protected:
  // Answers each request with `response`.
  void start(HttpResponse response, HttpServerOptions options = {}, bool by_unix = false) {
    if (server_) executor_.block_on(server_->stop());
    HttpRouter router;
    router.set_fallback([response](Context context, HttpRequest request) {
      return at_once(response, std::move(context), std::move(request));
    });
    const HttpEndpoint endpoint =
        by_unix ? HttpEndpoint::unix_socket(testing::TempDir() + "/leat_bodies_" +
                                            Id128::random().to_hex())
                : *HttpEndpoint::parse("127.0.0.1:0");
    server_ = *HttpServer::start(endpoint, std::move(router), std::move(options), executor_);
    client_.emplace(server_->endpoint(), HttpClientOptions{.connections_max = 1});
  }
  void TearDown() override {
    client_.reset();
    if (server_) executor_.block_on(server_->stop());
  }

  // Into three pieces of different sizes.
  Result<std::string> read(size_t size) {
    std::string all(size, '?');
    auto bytes = std::as_writable_bytes(std::span(all));
    std::vector<std::span<std::byte>> pieces = {bytes.subspan(0, size / 3),
                                                bytes.subspan(size / 3, size / 5),
                                                bytes.subspan(size / 3 + size / 5)};
    auto response = executor_.block_on(client_->request_into({}, {}, {.pieces = pieces}));
    if (!response) return Error(response.error());
    EXPECT_EQ(response->body, "");
    return all;
  }
  Result<HttpResponse> get(std::string method = "GET") {
    return executor_.block_on(client_->request({}, {.method = std::move(method)}));
  }

  Executor executor_;
  std::unique_ptr<HttpServer> server_;
  std::optional<HttpClient> client_;
};

TEST_F(HttpBodiesTest, ARopeIsSentAsOneBody) {
  const std::string text = pattern(3 * kMiB + 5);
  HttpResponse response;
  for (size_t at = 0; at < text.size(); at += 1000) {
    response.bytes.append(Bytes::copy_of(std::string_view(text).substr(at, 1000)));
  }
  start(response);
  EXPECT_EQ(read(text.size()), text);
  EXPECT_EQ(get()->body, text);
  EXPECT_EQ(get("HEAD")->headers.find("content-length"), std::to_string(text.size()));
}

TEST_F(HttpBodiesTest, FilesOfAnySizeAreSentFromAnyOffset) {
  const std::string text = pattern(5 * kMiB + 17);
  auto file = make_file(text);
  for (bool by_unix : {false, true}) {
    for (size_t size :
         {size_t{0}, size_t{1}, size_t{4096}, 16 * kKiB, 16 * kKiB + 1, 3 * kMiB + 5}) {
      start(of_file(file, 4095, size), {}, by_unix);
      for (int i = 0; i < 3; ++i) ASSERT_EQ(read(size), text.substr(4095, size)) << size;
      EXPECT_EQ(get("HEAD")->headers.find("content-length"), std::to_string(size));
    }
  }
}

TEST_F(HttpBodiesTest, ColdFilesAreSentByThreadsThatMayBlock) {
  const std::string text = pattern(5 * kMiB + 17);
  BlockingPool pool("test", 1);
  for (BlockingPool* threads : {static_cast<BlockingPool*>(nullptr), &pool}) {
    for (size_t size : {size_t{4096}, text.size()}) {
      auto file = make_file(text);
      HttpResponse response = of_file(file, 0, size);
      response.file->threads = threads;
      start(response);
      ASSERT_EQ(::fdatasync(file->fd()), 0);
      ASSERT_EQ(::posix_fadvise(file->fd(), 0, 0, POSIX_FADV_DONTNEED), 0);
      EXPECT_EQ(read(size), text.substr(0, size));
    }
  }
  executor_.block_on(server_->stop());
  server_.reset();
}

TEST_F(HttpBodiesTest, ShorterFileIsAShortBody) {
  for (size_t there : {size_t{0}, size_t{1000}, 2 * kMiB}) {
    const std::string text = pattern(there);
    start(of_file(make_file(text), 0, there + 100'000));
    auto response = read(there + 100'000);
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code(), StatusCode::kUnavailable);
    EXPECT_TRUE(response.error().message().contains("of " + std::to_string(there + 100'000)))
        << response.error().message();
  }
}

TEST_F(HttpBodiesTest, WhoTakesNothingOfAFileIsCutOff) {
  HttpResponse response = of_file(make_file(pattern(32 * kMiB)), 0, 32 * kMiB);
  auto let_go = SharedPromise<bool>::make();
  auto file = std::exchange(response.file->owner, nullptr);
  HttpRouter router;
  router.set_fallback([&](Context context, HttpRequest request) {
    response.file->owner =
        std::shared_ptr<const void>(file.get(), [let_go](const void*) { let_go->set(true); });
    return at_once(std::exchange(response, {}), std::move(context), std::move(request));
  });
  server_ = *HttpServer::start(*HttpEndpoint::parse("127.0.0.1:0"), std::move(router),
                               {.write_timeout = 5ms}, executor_);
  RawClient client(server_->endpoint().port);
  client.send_text("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(executor_.block_on(let_go->wait({}, "the end of the answer")), true);
}

TEST_F(HttpBodiesTest, AStreamOfKnownLengthIsSentWithoutChunks) {
  const std::string large = pattern(kMiB);
  start(streamed(2 * kMiB + 3, {large, "", "abc", large}));
  EXPECT_EQ(read(2 * kMiB + 3), large + "abc" + large);
  EXPECT_EQ(get()->body, large + "abc" + large);
  start(streamed(0, {}));
  EXPECT_EQ(get()->body, "");
  HttpResponse told;
  told.stream_bytes = 12345;
  start(told);
  EXPECT_EQ(get("HEAD")->headers.find("content-length"), "12345");
}

TEST_F(HttpBodiesTest, FailedProducerIsAShortBody) {
  const HttpResponse wrong[] = {streamed(10, {"too", "few"}), streamed(5, {"far", "too", "many"}),
                                streamed(6, {"too"}, error(StatusCode::kCorrupt, "on fire"))};
  for (const HttpResponse& response : wrong) {
    start(response);
    EXPECT_EQ(get().error().code(), StatusCode::kUnavailable);
    EXPECT_EQ(read(*response.stream_bytes).error().code(), StatusCode::kUnavailable);
  }
}

TEST_F(HttpBodiesTest, OnlyExactlyWhatWasAskedForGoesIntoMemory) {
  start(HttpResponse::text(206, "0123456789"));
  EXPECT_EQ(read(10), "0123456789");
  for (size_t size : {0, 9, 11}) {
    auto response = read(size);
    EXPECT_EQ(response.error().code(), StatusCode::kUnavailable);
    EXPECT_TRUE(response.error().message().contains("10 bytes")) << response.error().message();
  }
  HttpResponse chunked = streamed(0, {"0123456789"});
  chunked.stream_bytes.reset();
  start(chunked);
  EXPECT_TRUE(read(10).error().message().contains("it has no length"));
  EXPECT_EQ(get()->body, "0123456789");
  start(HttpResponse::failure(404, "not_found", "no such thing"));
  std::vector<std::byte> memory(1000);
  auto missing = executor_.block_on(client_->request_into({}, {}, {.pieces = {memory}}));
  EXPECT_EQ(missing->status, 404);
  EXPECT_TRUE(missing->body.contains("no such thing"));
  start(HttpResponse::text(500, std::string(2 * kMiB, 'x')));
  EXPECT_EQ(executor_.block_on(client_->request_into({}, {}, {.pieces = {memory}})).error().code(),
            StatusCode::kOutOfRange);
}

TEST_F(HttpBodiesTest, CancelledBodyLeavesNothingForTheNext) {
  std::promise<void> half;
  RawServer server([&](RawServer& self) {
    RawConnection first = self.accept();
    first.read_head();
    first.send_text("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" +
                    std::string(500'000, 'a'));
    half.set_value();
    first.await_end();
    RawConnection second = self.accept();
    second.read_head();
    second.answer(std::string(1'000'000, 'b'));
    second.await_end();
  });
  std::stop_source stop;
  std::string memory(1'000'000, '?');
  std::vector<std::span<std::byte>> pieces = {std::as_writable_bytes(std::span(memory))};
  {
    HttpClient client(server.endpoint(), {.connections_max = 1});
    auto first = std::async([&] {
      const Context context = Context::background().with_cancel(stop.get_token());
      return executor_.block_on(client.request_into(context, {}, {.pieces = pieces}));
    });
    half.get_future().wait();
    stop.request_stop();
    EXPECT_EQ(first.get().error().code(), StatusCode::kCancelled);
    EXPECT_EQ(executor_.block_on(client.request_into({}, {}, {.pieces = pieces}))->status, 200);
  }
  EXPECT_EQ(memory, std::string(1'000'000, 'b'));
}

TEST_F(HttpBodiesTest, WhatHasComeIsToldBeforeTheRest) {
  std::promise<void> seen;
  RawServer server([&](RawServer& self) {
    RawConnection connection = self.accept();
    connection.read_head();
    connection.send_text("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" +
                         std::string(500'000, 'a'));
    seen.get_future().wait();
    connection.send_text(std::string(500'000, 'b'));
    connection.await_end();
  });
  std::string memory(1'000'000, '?');
  uint64_t told = 0;
  HttpResponseSink response_sink{.pieces = {std::as_writable_bytes(std::span(memory))}};
  response_sink.on_bytes = [&](uint64_t bytes) {
    EXPECT_GT(bytes, told);
    EXPECT_EQ(memory[bytes - 1], bytes > 500'000 ? 'b' : 'a');
    if (told < 500'000 && bytes >= 500'000) seen.set_value();
    told = bytes;
  };
  HttpClient client(server.endpoint(), {.connections_max = 1});
  EXPECT_EQ(executor_.block_on(client.request_into({}, {}, response_sink))->status, 200);
  EXPECT_EQ(told, 1'000'000u);
}

TEST_F(HttpBodiesTest, AnAnswerIsLookedAtBeforeItsBodyIsTaken) {
  start(HttpResponse::text(206, "0123456789"));
  std::string memory(10, '?');
  HttpResponseSink response_sink{.pieces = {std::as_writable_bytes(std::span(memory))}};
  response_sink.accept = [](const HttpResponse& response) -> Result<> {
    return error(StatusCode::kUnavailable, fmt::format("not {}", response.status));
  };
  auto refused = executor_.block_on(client_->request_into({}, {}, response_sink));
  EXPECT_EQ(refused.error().message(), "not 206");
  EXPECT_EQ(memory, "??????????");
  EXPECT_EQ(read(10), "0123456789");
}

TEST_F(HttpBodiesTest, FieldsCannotSmuggleOthers) {
  HttpResponse response = HttpResponse::text(200, "body");
  response.headers.set("leat-name", "a\r\nleat-other: b");
  response.headers.set("Content-Length", "1000");
  start(response);
  auto answer = get();
  EXPECT_EQ(answer->body, "body");
  EXPECT_EQ(answer->headers.find("leat-name"), "a  leat-other: b");
  EXPECT_EQ(answer->headers.find("leat-other"), std::nullopt);
}

}  // namespace
}  // namespace leat
