// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "model/byte_range.h"
#include "model/file_ref.h"
#include "model/mount_entry.h"
#include "model/pool.h"

namespace leat {
namespace {

TEST(ByteRange, WidensToWholeBlocksWithinTheFile) {
  EXPECT_EQ((ByteRange{70000, 1}.widen(kBlockBytes, 1 << 20)), (ByteRange{65536, 65536}));
  EXPECT_EQ((ByteRange{70000, 1}.widen(kBlockBytes, 70001)), (ByteRange{65536, 4465}));
  EXPECT_TRUE((ByteRange{80000, 5}.clamp(70000)).empty());
}

TEST(FileRef, EveryPartIsInTheIdentity) {
  StoreId store = make_store_id("s3", "http://127.0.0.1:7070", "", "bucket");
  FileRef ref = FileRef::make(store, "a", Version::etag("\"1\""), 5);
  EXPECT_EQ(ref.id, FileRef::make(store, "a", Version::etag("\"1\""), 5).id);
  EXPECT_NE(ref.id, FileRef::make(store, "b", Version::etag("\"1\""), 5).id);
  EXPECT_NE(ref.id, FileRef::make(store, "a", Version::etag("\"2\""), 5).id);
  EXPECT_NE(ref.id, FileRef::make(store, "a", Version::etag("\"1\""), 6).id);
  StoreId salted = make_store_id("s3", "http://127.0.0.1:7070", "", "bucket", "salt");
  EXPECT_NE(ref.id, FileRef::make(salted, "a", Version::etag("\"1\""), 5).id);
}

TEST(CacheUse, IsWhatTheMountWantsOfWhereTheFileLies) {
  EXPECT_EQ(cache_use(*parse_cache_mode("auto"), false), CacheUse::kDisk);
  EXPECT_EQ(cache_use(*parse_cache_mode("auto"), true), CacheUse::kBypass);
  EXPECT_EQ(cache_use(*parse_cache_mode("always"), true), CacheUse::kDisk);
  EXPECT_EQ(cache_use(*parse_cache_mode("never"), true), CacheUse::kBypass);
  EXPECT_EQ(cache_use(*parse_cache_mode("never"), false), CacheUse::kMemory);
  EXPECT_EQ(parse_cache_mode("yes").error().code(), StatusCode::kInvalidArgument);
  const FileRef kept = FileRef::make({}, "k", Version::etag("1"), 5);
  const FileRef unkept = FileRef::make({}, "k", Version::etag("1"), 5, CacheUse::kBypass);
  EXPECT_EQ(kept.id, unkept.id);
}

TEST(StoreUrl, TakesSourcesApart) {
  StoreUrl url = StoreUrl::parse("s3://b/p/q?endpoint=http%3A//h:1&region=x").value();
  EXPECT_EQ(url.scheme, "s3");
  EXPECT_EQ(url.bucket, "b");
  EXPECT_EQ(url.prefix, "p/q/");
  EXPECT_EQ(url.options.at("endpoint"), "http://h:1");
  EXPECT_EQ(url.to_string(), "s3://b/p/q/");
  EXPECT_EQ(StoreUrl::parse("/data/a?b").value().prefix, "data/a?b/");
  EXPECT_EQ(StoreUrl::parse("s3://b").value().prefix, "");
}

TEST(StoreUrl, NamesEveryKey) {
  struct Case {
    const char* url;
    const char* prefix;
  };
  for (const Case& one : {
           Case{"s3://b/what%3F/", "what?/"},
           Case{"s3://b/a%20b/", "a b/"},
           Case{"s3://b/a b/", "a b/"},
           Case{"s3://b/a%2520b/", "a%20b/"},
           Case{"s3://b/100%/", "100%/"},
           Case{"s3://b/100%25/", "100%/"},
           Case{"s3://b/5%zz/", "5%zz/"},
           Case{"s3://b/a+b#c&d=e/", "a+b#c&d=e/"},
           Case{"s3://b/%E6%BC%A2/?region=x", "漢/"},
           Case{"http://h/a%20b/", "a b/"},
           Case{"file:///a%20b/", "a b/"},
           Case{"/a%20b?c://d", "a%20b?c://d/"},
       }) {
    auto url = StoreUrl::parse(one.url);
    ASSERT_TRUE(url) << one.url;
    EXPECT_EQ(url->prefix, one.prefix) << one.url;
    EXPECT_EQ(StoreUrl::parse(url->to_string()).value().prefix, one.prefix) << url->to_string();
  }
  std::string every;
  for (int c = 1; c < 128; ++c) every += static_cast<char>(c);
  for (const char* text : {"%", "%%41", "%2541", "a%3Fb", "??"}) every += text;
  const StoreUrl url{.scheme = "s3", .bucket = "b", .prefix = every + "/", .options = {}};
  EXPECT_EQ(StoreUrl::parse(url.to_string()).value().prefix, url.prefix);
}

TEST(StoreUrl, SaysWhatWasMeant) {
  struct Case {
    const char* url;
    const char* meant;
  };
  for (const Case& one : {
           Case{"s3:/b/p", "did you mean 's3://b/p'?"},
           Case{"s3:b/p", "did you mean 's3://b/p'?"},
           Case{"S3:/b", "did you mean 's3://b'?"},
           Case{"S3://b/P?region=x", "did you mean 's3://b/P?region=x'?"},
           Case{"file:/data", "did you mean 'file:///data'?"},
           Case{"s3://b/what?/x", "%3F"},
       }) {
    auto url = StoreUrl::parse(one.url);
    ASSERT_FALSE(url) << one.url;
    EXPECT_NE(url.error().message().find(one.meant), std::string::npos) << url.error().message();
  }
  auto secret = StoreUrl::parse("s3:/key:secret@b");
  ASSERT_FALSE(secret);
  EXPECT_EQ(secret.error().message().find("did you mean"), std::string::npos);
}

TEST(StoreUrl, RefusesWhatItCannotMean) {
  for (const char* text :
       {"", "bucket/x", "s3://", "s3:///x", "file://relative", "s3://b?x", "s3://k:s@b/"}) {
    EXPECT_FALSE(StoreUrl::parse(text)) << text;
  }
}

TEST(Path, IsNormalisedOnce) {
  EXPECT_EQ(normalise_path("/a//b/./c/").value(), "/a/b/c");
  EXPECT_EQ(normalise_path("///").value(), "/");
  EXPECT_FALSE(normalise_path("/a/../b"));
  EXPECT_FALSE(normalise_path("a"));
}

TEST(Path, LiesBelowAnotherByWholeNames) {
  EXPECT_TRUE(is_at_or_below("/a", "/a"));
  EXPECT_TRUE(is_at_or_below("/a/b", "/a"));
  EXPECT_TRUE(is_at_or_below("/a", "/"));
  EXPECT_TRUE(is_at_or_below("/", "/"));
  EXPECT_FALSE(is_at_or_below("/ab", "/a"));
  EXPECT_FALSE(is_at_or_below("/", "/a"));
}

TEST(Freshness, SurvivesARoundTrip) {
  for (const char* text : {"max-age=1m", "immutable", "validate", "max-age=0s"}) {
    EXPECT_EQ(Freshness::parse(text).value().to_string(), text);
  }
  EXPECT_FALSE(Freshness::parse("sometimes"));
}

TEST(Freshness, NegativeTtlIsAtMostMaxAge) {
  using namespace std::chrono_literals;
  Freshness freshness = Freshness::parse("max-age=60s").value();
  EXPECT_EQ(freshness.effective_negative_ttl(), 5s);
  freshness.max_age = 1s;
  EXPECT_EQ(freshness.effective_negative_ttl(), 1s);
  freshness.mode = Freshness::Mode::kValidate;
  EXPECT_EQ(freshness.effective_negative_ttl(), 1s);
  freshness.mode = Freshness::Mode::kImmutable;
  EXPECT_EQ(freshness.effective_negative_ttl(), 5s);
}

TEST(PoolPolicy, IsReadFromAMountsOptions) {
  PoolPolicy policy = PoolPolicy::parse("/data", {{"quota", "100GiB"},
                                                  {"ttl", "7d"},
                                                  {"priority", "low"},
                                                  {"pin", "true"},
                                                  {"region", "x"}})
                          .value();
  EXPECT_EQ(policy, (PoolPolicy{.name = "/data",
                                .quota_bytes = uint64_t{100} << 30,
                                .ttl = std::chrono::hours(24 * 7),
                                .priority = Priority::kLow,
                                .pinned = true}));
  EXPECT_EQ(PoolPolicy::parse("/data", {}).value(), PoolPolicy{.name = "/data"});
}

TEST(PoolPolicy, SaysWhichOptionIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"quota", "much"}, {"quota", "1MiB"}, {"ttl", "7"},     {"ttl", "10ms"},
      {"priority", "2"}, {"pin", "yes"},    {"priority", ""},
  };
  for (const auto& [option, text] : wrong) {
    auto policy = PoolPolicy::parse("/data", {{option, text}});
    ASSERT_FALSE(policy) << option << "=" << text;
    EXPECT_EQ(policy.error().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(policy.error().to_string().find(option), std::string::npos)
        << policy.error().to_string();
  }
}

TEST(PoolId, IsTheSameForAPathAndNoOther) {
  EXPECT_EQ(pool_of_mount("/data"), pool_of_mount("/data"));
  EXPECT_NE(pool_of_mount("/data"), pool_of_mount("/data2"));
  EXPECT_EQ(static_cast<uint64_t>(pool_of_mount("/mnt/train")), 16510525218121374110u)
      << "is on people's disks";
}

}  // namespace
}  // namespace leat
