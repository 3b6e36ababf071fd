// SPDX-License-Identifier: Apache-2.0
// Tests what a reader sees of a failing store, through all layers between `open_source` and the
// socket. bench/stores has the figures; these properties hold on any machine.
#include "source/bad_store_test.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <latch>
#include <optional>
#include <random>

#include "runtime/executor.h"
#include "source/anonymous_bucket_test.h"
#include "source/retry/retrying_source.h"
#include "source/source.h"
#include "source/source_metrics.h"

namespace leat {
namespace {

using namespace std::chrono_literals;
using testing::BadStore;
using testing::bytes_of;
using ::testing::IsEmpty;
using testing::S3Request;
using testing::StoreFault;
using testing::StoreTerms;

using Kind = StoreFault::Kind;

constexpr size_t kObjectBytes = 256 << 10;

// Counts the failed reads of another source, and those of them that failed before the silence
// limit.
class FailureCount : public Source {
 public:
  explicit FailureCount(SourcePtr inner) : inner_(std::move(inner)) {}

  uint64_t failed() const { return failed_; }
  uint64_t failed_early() const { return failed_early_; }

  const StoreId& id() const override { return inner_->id(); }
  const std::string& name() const override { return inner_->name(); }
  const SourceCapabilities& capabilities() const override { return inner_->capabilities(); }
  Task<Result<SourceObject>> stat(Context context, StatRequest request) override {
    return inner_->stat(std::move(context), std::move(request));
  }
  Task<Result<ListPage>> list(Context context, ListRequest request) override {
    return inner_->list(std::move(context), std::move(request));
  }
  Task<Result<>> read(Context context, ReadRequest request, std::span<std::byte> into) override {
    const Clock::time_point began = Clock::now();
    Result<> done = co_await inner_->read(std::move(context), request, into);
    if (!done) {
      ++failed_;
      const auto silent =
          std::min(request.timeouts.first_byte_timeout, request.timeouts.idle_timeout);
      if (Clock::now() - began < silent) ++failed_early_;
    }
    co_return done;
  }

 private:
  const SourcePtr inner_;
  std::atomic<uint64_t> failed_ = 0, failed_early_ = 0;
};

class BadStoreTest : public ::testing::Test {
 protected:
  BadStore& open(
      StoreTerms terms,
      BadStore::Plan plan = [](const S3Request&, unsigned) { return StoreFault(); },
      const std::string& options = "") {
    store_.emplace(std::move(terms), std::move(plan));
    store_->objects().put("key", content_);
    const std::string url =
        fmt::format("s3://bucket?endpoint={}&anonymous=true{}", store_->endpoint(), options);
    source_ = open_source(StoreUrl::parse(url).value()).value();
    return *store_;
  }
  // The store itself, without other layers.
  SourcePtr without_retries() const {
    return OpendalSource::open(testing::anonymous_bucket(store_->endpoint())).value();
  }

  // Runs that many callers, each with sequential reads; returns the failures.
  std::vector<std::string> read(unsigned callers, unsigned reads, size_t bytes) {
    std::latch left(callers);
    failures_.clear();
    for (unsigned i = 0; i < callers; ++i) {
      executor_.spawn(caller(this, i, reads, bytes, &left));
    }
    left.wait();
    return failures_;
  }

  static Task<> caller(BadStoreTest* test, unsigned number, unsigned reads, size_t bytes,
                       std::latch* left) {
    std::string into(bytes, '\0');
    for (unsigned i = 0; i < reads; ++i) {
      const uint64_t offset = (number * reads + i) * 977 % (kObjectBytes - bytes + 1);
      ReadRequest request{.key = "key",
                          .range = {offset, bytes},
                          .if_version = Version::etag(test->etag()),
                          .timeouts = {.first_byte_timeout = 1h, .idle_timeout = 1h}};
      Result<> done =
          co_await test->source_->read({}, request, std::as_writable_bytes(std::span(into)));
      const bool right = done && into == test->content_.substr(offset, bytes);
      if (right) continue;
      std::lock_guard lock(test->mutex_);
      test->failures_.push_back(done ? "other bytes" : done.error().to_string());
    }
    left->count_down();
  }

  std::string etag() const { return store_->objects().version("key", 0).etag; }

  const std::string content_ = bytes_of(1, kObjectBytes);
  std::optional<BadStore> store_;
  SourcePtr source_;
  std::mutex mutex_;
  std::vector<std::string> failures_;
  Executor executor_{{.threads = 2}};
};

TEST_F(BadStoreTest, ThrottlingIsHiddenFromReaders) {
  for (Kind kind : {Kind::kSlowDown, Kind::kTooMany}) {
    StoreTerms terms{.demands_versions = true, .requests_per_second = 200};
    terms.throttle.kind = kind;
    // Also throttles clients that are never too fast, the last time shortly before they end.
    BadStore& store = open(terms, [kind, taken = 0u](const S3Request&, unsigned) mutable {
      return taken++ % 330 < 310 ? StoreFault() : StoreFault{.kind = kind};
    });
    RetryOptions options;
    options.attempt_timeout_min = options.attempt_timeout_max =
        1h;  // late responses are not requested again
    source_ = RetryingSource::make(without_retries(), options);
    EXPECT_THAT(read(32, 20, 4096), IsEmpty());
    EXPECT_THAT(store.violations(), IsEmpty());
    const BadStore::Counts counts = store.counts();
    const uint64_t asked = counts.requests - counts.faults;
    EXPECT_EQ(asked - counts.throttled, 32u * 20u);
    EXPECT_EQ(counts.faults, 40u);
    // Most throttled requests are of the first moment.
    EXPECT_LT(counts.throttled, asked / 2);
    EXPECT_LT(source_->concurrency_hint(0), 64u) << "those who ask ahead are told";
  }
}

TEST_F(BadStoreTest, WhatAsksToBeLeftAloneIsLeftAlone) {
  constexpr unsigned kCallers = 16;
  BadStore& store =
      open({.during_pause_max = kCallers}, [asked = 0u](const S3Request&, unsigned) mutable {
        StoreFault fault;
        if (asked++ == 20) fault = {.kind = Kind::kSlowDown, .time = 1s};
        return fault;
      });
  EXPECT_THAT(read(kCallers, 10, 4096), IsEmpty());
  EXPECT_THAT(store.violations(), IsEmpty());
  EXPECT_EQ(store.counts().faults, 1u);
}

TEST_F(BadStoreTest, StalledConnectionIsHiddenFromReaders) {
  const uint64_t timeouts = source_metrics::timeouts.value();
  std::mt19937_64 random(3);
  BadStore& store = open({.closes = true}, [random](const S3Request&, unsigned) mutable {
    StoreFault fault{.salt = random()};
    if (fault.salt % 10 == 0) fault.kind = Kind::kStall;
    fault.salt /= 10;  // before the head, within it, within the body
    return fault;
  });
  auto attempts = std::make_shared<FailureCount>(without_retries());
  source_ = RetryingSource::make(attempts);
  EXPECT_THAT(read(16, 5, 64 << 10), IsEmpty());
  EXPECT_THAT(store.violations(), IsEmpty());
  EXPECT_GT(store.counts().stalled, 0u);
  // On a slow machine more than these time out.
  EXPECT_GE(attempts->failed(), store.counts().stalled);
  EXPECT_EQ(attempts->failed_early(), 0u);
  EXPECT_EQ(source_metrics::timeouts.value() - timeouts, attempts->failed());
}

TEST_F(BadStoreTest, ACeilingIsKept) {
  BadStore& store = open(
      {.client_ceiling = 200}, [](const S3Request&, unsigned) { return StoreFault(); },
      "&requests_per_second=200");
  EXPECT_THAT(read(16, 15, 4096), IsEmpty());
  EXPECT_THAT(store.violations(), IsEmpty());
}

TEST_F(BadStoreTest, AStoreThatIsAwayForAMomentIsWaitedFor) {
  BadStore& store = open({.closes = true});
  EXPECT_THAT(read(4, 1, 4096), IsEmpty());
  store.refuse();
  auto task = [](Source* source, std::string* into, std::string etag) -> Task<Result<>> {
    ReadRequest request{
        .key = "key", .range = {0, into->size()}, .if_version = Version::etag(etag)};
    Result<> done = co_await source->read({}, request, std::as_writable_bytes(std::span(*into)));
    co_return done;
  };
  const uint64_t retries = source_metrics::retries.value();
  std::string into(4096, '\0');
  auto done = boost::asio::co_spawn(executor_.any(), task(source_.get(), &into, etag()),
                                    boost::asio::use_future);
  while (source_metrics::retries.value() == retries) std::this_thread::yield();
  store.accept_again();
  EXPECT_TRUE(done.get());
  EXPECT_EQ(into, content_.substr(0, into.size()));
}

// The purpose of this store: it detects what a client must not do.
TEST_F(BadStoreTest, IsStrict) {
  BadStore& store = open({.demands_versions = true, .client_ceiling = 0.001});
  std::string into(16, '\0');
  for (int i = 0; i < 3; ++i) {
    ReadRequest request{.key = "key", .range = {0, into.size()}, .if_version = {}};
    auto done =
        executor_.block_on(source_->read({}, request, std::as_writable_bytes(std::span(into))));
    EXPECT_TRUE(done);
  }
  const std::vector<std::string> violations = store.violations();
  EXPECT_THAT(violations, ::testing::Contains("no version is demanded by GET /bucket/key "
                                              "bytes=0-15"));
  EXPECT_THAT(violations,
              ::testing::Contains(::testing::HasSubstr("exceed the ceiling of 0.001/s")));
  for (const char* head :
       {"GET /bucket/key\r\n\r\n", "GET /bucket/k y HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET /bucket/%4 HTTP/1.1\r\nhost: h\r\n\r\n", "GET /bucket/key HTTP/1.1\r\n\r\n",
        "GET /bucket/key HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET /bucket/key HTTP/1.1\r\nhost: h\r\nhost: h\r\nrange: bytes=0-1\r\n\r\n",
        "GET /bucket/key HTTP/1.1\r\nhost: h\r\nrange: bytes=1-0\r\n\r\n",
        "GET /bucket/key HTTP/1.1\r\nhost: h\r\nrange: bytes=0-\r\n\r\n",
        "GET /bucket/key HTTP/1.1\r\nhost: h\r\nrange: bytes=0-1\r\nx y: z\r\n\r\n",
        "GET /bucket/key HTTP/1.1\r\nhost: h\r\nrange: bytes=0-1\r\nauthorization: x\r\n\r\n",
        "GET /bucket/?list-type=1 HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET /bucket/?list-type=2&list-type=2 HTTP/1.1\r\nhost: h\r\n\r\n",
        "DELETE /bucket/key HTTP/1.1\r\nhost: h\r\n\r\n"}) {
    EXPECT_NE(S3Request::parse(head, "h", false).complaint, "") << head;
  }
  const char* lawful = "GET /bucket/a%20b HTTP/1.1\r\nhost: h\r\nrange: bytes=0-1\r\n\r\n";
  EXPECT_EQ(S3Request::parse(lawful, "h", false).complaint, "");
  EXPECT_EQ(S3Request::parse(lawful, "h", true).complaint, "no signature");
}

}  // namespace
}  // namespace leat
