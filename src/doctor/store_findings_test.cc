// SPDX-License-Identifier: Apache-2.0
// Observed error texts of stores, and the findings from them.
#include "doctor/store_findings.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"
#include "base/units.h"
#include "doctor/disk_speed.h"
#include "runtime/disk.h"

namespace leat {
namespace {

using testing::HasSubstr;

Finding of_answer(const char* answer, StatusCode code = StatusCode::kUnavailable,
                  const char* source = "s3://my-bucket/train/") {
  StoreFacts facts{
      .source = source, .s3 = true, .trouble = Status(code, answer), .doing = "listing"};
  Findings findings = store_findings(facts);
  EXPECT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings.front().level, Level::kProblem);
  EXPECT_FALSE(findings.front().action.empty());
  EXPECT_THAT(findings.front().what, HasSubstr(answer));
  return findings.front();
}

TEST(StoreFindings, NameTheCauseThatAnAnswerMeans) {
  struct Case {
    const char* answer;
    const char* name;
  };
  for (
      const Case& one : std::initializer_list<Case>{
          {"the store answered 403 RequestTimeTooSkewed: The difference between …", "store.clock"},
          {"the store answered 400 AuthorizationHeaderMalformed: the region \"eu-west-1\" is "
           "wrong; "
           "expecting \"us-east-1\"",
           "store.region"},
          {"the store answered 301 PermanentRedirect: …", "store.region"},
          {"the store answered 400 ExpiredToken: The provided token has expired.",
           "store.credentials"},
          {"the store answered 403 InvalidAccessKeyId: …", "store.credentials"},
          {"the store answered 403 SignatureDoesNotMatch: …", "store.credentials"},
          {"the store answered 503 SlowDown: Please reduce your request rate.", "store.throttling"},
          {"the store answered 404 NoSuchBucket: …", "store.bucket"},
          {"the store answered 403 AccessDenied: Access Denied", "store.permission"},
          {"the store answered 200 with <html>, which is no listing", "store.endpoint"},
          {"client error (Connect): tcp connect error: Connection refused (os error 111)",
           "store.reachable"},
          {"dns error: failed to lookup address information for minio.local", "store.reachable"},
          {"dns error: failed to lookup address information for my-bucket.minio.local",
           "store.addressing"},
          {"request url is invalid: invalid IPv4 address; check the endpoint", "store.addressing"},
          {"through the proxy 10.0.0.1:3128, which http_proxy names: tcp connect error: Connection "
           "refused",
           "store.proxy"},
          {"the store answered 403 InvalidObjectState: …", "store.archive"},
          {"the store answered 403; the clock of this machine is 7200 s behind the store's",
           "store.clock"},
          {"the store answered 400; the bucket is in another region: give the option region=x",
           "store.region"},
          {"something that nobody has seen yet", "store.access"},
      }) {
    EXPECT_EQ(of_answer(one.answer).name, one.name) << one.answer;
  }
  EXPECT_EQ(of_answer("no", StatusCode::kThrottled).name, "store.throttling");
  EXPECT_EQ(of_answer("no", StatusCode::kPermissionDenied).name, "store.permission");
  EXPECT_EQ(of_answer("unknown option 'regoin'", StatusCode::kInvalidArgument).name,
            "store.options");
}

TEST(StoreFindings, OneThatWorksHasASpeed) {
  StoreFacts facts{.source = "s3://b/",
                   .s3 = true,
                   .latency = std::chrono::milliseconds(4),
                   .read_bytes = 8 * kMiB,
                   .read_time = std::chrono::milliseconds(80)};
  Findings findings = store_findings(facts);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[1].level, Level::kOk);
  EXPECT_EQ(findings[1].what,
            "a small request takes 4.0 ms; one request reads 100.0 MiB/s (8.0 MiB in 80 ms)");
  facts.latency = std::chrono::milliseconds(400);
  EXPECT_EQ(store_findings(facts)[1].level, Level::kNote);
  EXPECT_THAT(store_findings(facts)[1].cost, HasSubstr("80 small files a second"));
}

TEST(StoreFindings, AnEmptyPlaceIsWorthANote) {
  Findings findings = store_findings({.source = "s3://b/none/", .empty = true});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings.front().level, Level::kNote);
}

TEST(StoreInspection, ReadsTheFirstFileItFinds) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("leat_doctor_" + Id128::random().to_hex());
  std::filesystem::create_directories(folder / "a/b");
  const auto url = [&](const char* below) {
    return StoreUrl::parse("file://" + (folder / below).string()).value();
  };
  StoreFacts empty = inspect_store(url("a/b"), std::chrono::seconds(10));
  EXPECT_FALSE(empty.trouble);
  EXPECT_TRUE(empty.empty);
  std::ofstream(folder / "a/b/file") << std::string(1000, 'x');
  StoreFacts full = inspect_store(url(""), std::chrono::seconds(10));
  EXPECT_FALSE(full.trouble) << full.trouble->to_string();
  EXPECT_EQ(full.read_bytes, 1000u);
  StoreFacts none = inspect_store(url("none"), std::chrono::seconds(10));
  ASSERT_TRUE(none.trouble);
  EXPECT_EQ(store_findings(none).front().name, "store.bucket");
  std::filesystem::remove_all(folder);
}

TEST(DiskSpeed, IsMeasuredAndASlowOneIsSaid) {
  File file(::open(testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(file);
  if (auto speed = measure_disk(file.fd())) {  // nothing without O_DIRECT
    EXPECT_GT(speed->write_bytes_per_second, 0);
    EXPECT_GT(speed->read_bytes_per_second, 0);
    EXPECT_GT(speed->small_read.count(), 0);
  }
  const DiskSpeed good{2e9, 3e9, std::chrono::microseconds(80)};
  EXPECT_EQ(speed_finding("/c", good).level, Level::kOk);
  DiskSpeed slow = good;
  slow.write_bytes_per_second = 30e6;
  EXPECT_EQ(speed_finding("/c", slow).level, Level::kNote);
  slow = good;
  slow.small_read = std::chrono::milliseconds(25);
  EXPECT_THAT(speed_finding("/c", slow).what, HasSubstr("25.00 ms; this disk is slow"));
}

}  // namespace
}  // namespace leat
