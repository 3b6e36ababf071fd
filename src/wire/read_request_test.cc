// SPDX-License-Identifier: Apache-2.0
#include "wire/read_request.h"

#include <gtest/gtest.h>

#include "cluster/cluster_view.h"
#include "wire/random_test.h"
#include "wire/wire_text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

PeerReadRequest some_request() {
  const StoreId store(*Id128::from_hex("000102030405060708090a0b0c0d0e0f"));
  return {.mount = "/data",
          .file = FileRef::make(store, "train/a b", Version::etag("\"x\""), 100),
          .range = {10, 20},
          .header = {.epoch = 7}};
}

// Parses the request as a receiver does.
Result<PeerReadRequest> travelled(const HttpRequest& request) {
  HttpRequest there;
  there.headers = request.headers;
  LEAT_CHECK_OK(parse_target(make_target(request.path, request.query), there));
  return read_request_from(there);
}

void expect_same(const PeerReadRequest& there, const PeerReadRequest& here) {
  EXPECT_EQ(there.mount, here.mount);
  EXPECT_EQ(there.file.store, here.file.store);
  EXPECT_EQ(there.file.key, here.file.key);
  EXPECT_EQ(there.file.version, here.file.version);
  EXPECT_EQ(there.file.size, here.file.size);
  EXPECT_EQ(there.file.id, here.file.id);
  EXPECT_EQ(there.range, here.range);
  EXPECT_EQ(there.header, here.header);
}

TEST(ReadRequest, IsTheDocumentedTarget) {
  const HttpRequest http = to_http(some_request());
  EXPECT_EQ(make_target(http.path, http.query),
            "/peer/v1/bytes?epoch=7&key=train/a%20b&mount=/data&size=100&"
            "store=000102030405060708090a0b0c0d0e0f&version=1%3A%22x%22");
  EXPECT_EQ(http.headers.find("range"), "bytes=10-29");
  EXPECT_EQ(http.headers.find("cache-control"), std::nullopt);
}

TEST(ReadRequest, RandomOnesComeBack) {
  testing::Random random;
  for (int i = 0; i < 500; ++i) {
    PeerReadRequest request = some_request();
    const uint64_t size = 1 + random.upto(UINT64_MAX - 1);
    const auto kind = static_cast<Version::Kind>(random.upto(4));
    Version version{kind, {}};
    if (version.known()) version.value = "v" + random.bytes(20, std::string_view("\0", 1));
    request.file = FileRef::make(StoreId(Id128::random()),
                                 "k" + random.bytes(60, std::string_view("\0/", 2)), version, size);
    request.range.offset = random.upto(size - 1);
    request.range.size =
        1 + random.upto(std::min(size - request.range.offset, kPeerReadBytesMax) - 1);
    request.header.epoch = static_cast<int64_t>(random.upto(INT64_MAX));
    request.header.only_if_cached = random.coin();
    if (random.coin()) request.header.failover_for = WorkerId(Id128::random());
    request.header.replicas = static_cast<uint32_t>(1 + random.upto(kReplicasMax - 1));
    request.header.timeout = milliseconds(random.upto(kPeerTimeoutMax.count()));
    auto there = travelled(to_http(request));
    ASSERT_TRUE(there) << there.error().to_string();
    expect_same(*there, request);
  }
}

TEST(ReadRequest, MalformedRequestsAreRejected) {
  using Change = std::pair<const char*, std::string>;
  const std::vector<Change> changes = {
      {"mount", ""},
      {"mount", "data"},
      {"mount", "/data/"},
      {"mount", "/a/../b"},
      {"store", ""},
      {"store", "00"},
      {"store", std::string(32, 'G')},
      {"key", ""},
      {"key", "/a"},
      {"key", "a/"},
      {"key", "a//b"},
      {"key", "../etc"},
      {"key", "a/./b"},
      {"key", "a/.."},
      {"key", std::string(kKeyBytesMax + 1, 'k')},
      {"version", ""},
      {"version", "1"},
      {"version", "1:"},
      {"version", "9:x"},
      {"version", "x:y"},
      {"version", "-1:x"},
      {"version", "0:x"},
      {"version", "257:x"},
      {"version", "1:" + std::string(kVersionBytesMax + 1, 'v')},
      {"size", ""},
      {"size", "-1"},
      {"size", "1x"},
      {"size", " 1"},
      {"size", "0x10"},
      {"size", "18446744073709551616"},
      {"epoch", ""},
      {"epoch", "-1"},
      {"epoch", "9223372036854775808"},
  };
  for (const auto& [name, value] : changes) {
    HttpRequest http = to_http(some_request());
    http.query[name] = value;
    auto there = read_request_from(http);
    ASSERT_FALSE(there) << name << "=" << value;
    EXPECT_EQ(there.error().code(), StatusCode::kInvalidArgument);
  }
  for (const char* name : {"mount", "store", "key", "version", "size", "epoch"}) {
    HttpRequest http = to_http(some_request());
    http.query.erase(name);
    EXPECT_FALSE(read_request_from(http)) << name;
  }
  const std::vector<Change> fields = {{"leat-failover-for", "x"},    {"leat-timeout-ms", "0"},
                                      {"leat-timeout-ms", "-5"},     {"leat-timeout-ms", "soon"},
                                      {"cache-control", "no-cache"}, {"range", ""}};
  for (const auto& [name, value] : fields) {
    HttpRequest http = to_http(some_request());
    http.headers.set(name, value);
    EXPECT_FALSE(read_request_from(http)) << name << ": " << value;
  }
}

TEST(ReadRequest, ARangeLiesWithinTheFile) {
  HttpRequest http = to_http(some_request());
  for (const char* range : {"bytes=0-100", "bytes=100-100", "bytes=99-100",
                            "bytes=18446744073709551613-18446744073709551614"}) {
    http.headers.set("range", range);
    auto there = read_request_from(http);
    ASSERT_FALSE(there) << range;
    EXPECT_EQ(there.error().code(), StatusCode::kOutOfRange) << range;
  }
  http.query["size"] = "1000000000";
  http.headers.set("range", "bytes=0-999999999");
  EXPECT_EQ(read_request_from(http).error().code(), StatusCode::kInvalidArgument);
}

TEST(ReadRequest, PassesOverWhatANewerVersionSays) {
  HttpRequest http = to_http(some_request());
  http.query["colour"] = "blue";
  http.headers.set("leat-colour", "blue");
  http.headers.set("leat-timeout-ms", "99999999999");
  auto there = read_request_from(http);
  ASSERT_TRUE(there) << there.error().to_string();
  EXPECT_EQ(there->header.timeout, kPeerTimeoutMax);
}

TEST(ReadRequest, MoreReplicasThanThereMayBeAreCut) {
  PeerReadRequest request = some_request();
  request.header.replicas = 1'000;
  EXPECT_EQ(travelled(to_http(request))->header.replicas, kReplicasMax);
  for (const char* wrong : {"", "0", "-1", "x", "2 10"}) {
    HttpRequest http = to_http(request);
    http.headers.set(kReplicasField, wrong);
    EXPECT_FALSE(travelled(http)) << wrong;
  }
}

TEST(ReadRequest, ReplicaHintSurvivesOrIsAbsent) {
  HttpResponse response;
  put_replica_hint({}, response);
  EXPECT_EQ(response.headers.find(kReplicasField), std::nullopt);
  const ReplicaHint advice{.replicas = 3, .ttl = std::chrono::seconds(10)};
  put_replica_hint(advice, response);
  EXPECT_EQ(response.headers.find(kReplicasField), "3 10");
  EXPECT_EQ(replica_hint_of(response), advice);
  for (const char* wrong :
       {"", "3", "3 ", " 10", "3 -1", "x 10", "3 10 1", "1 10", "0 10", "3 0"}) {
    response.headers.set(kReplicasField, wrong);
    EXPECT_EQ(replica_hint_of(response), ReplicaHint{}) << wrong;
  }
  response.headers.set(kReplicasField, "4000 4000000");
  EXPECT_EQ(replica_hint_of(response).replicas, kReplicasMax);
  EXPECT_LE(replica_hint_of(response).ttl, std::chrono::minutes(1));
}

TEST(Range, OneRangeWithBothEnds) {
  EXPECT_EQ(parse_range("bytes=0-0"), (ByteRange{0, 1}));
  EXPECT_EQ(parse_range("bytes=5-9"), (ByteRange{5, 5}));
  for (const char* text :
       {"", "bytes=", "bytes=-", "bytes=5-", "bytes=-5", "bytes=9-5", "bytes=0-1,3-4", "bytes= 0-1",
        "bytes=0-1 ", "Bytes=0-1", "items=0-1", "bytes=0--1", "bytes=+0-1", "0-1",
        "bytes=0-18446744073709551615", "bytes=0-99999999999999999999"}) {
    EXPECT_FALSE(parse_range(text)) << text;
  }
}

TEST(Range, ContentRangesComeBack) {
  testing::Random random;
  for (int i = 0; i < 200; ++i) {
    const uint64_t size = 1 + random.upto(UINT64_MAX - 1);
    ContentRange range{{random.upto(size - 1), 0}, size};
    range.range.size = 1 + random.upto(size - range.range.offset - 1);
    EXPECT_EQ(parse_content_range(content_range_text(range)), range);
  }
  for (const char* text : {"", "bytes 0-1", "bytes 0-1/", "bytes 0-1/*", "bytes */2", "bytes 0-2/2",
                           "bytes 1-0/2", "bytes=0-1/2", "bytes 0-1/2 "}) {
    EXPECT_FALSE(parse_content_range(text)) << text;
  }
}

}  // namespace
}  // namespace leat
