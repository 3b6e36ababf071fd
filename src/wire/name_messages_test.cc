// SPDX-License-Identifier: Apache-2.0
#include "wire/name_messages.h"

#include <gtest/gtest.h>

#include <set>

#include "wire/flat_json.h"
#include "wire/random_test.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kNoSlash{"\0/", 2};

SourceObject file_of(std::string key) {
  return {.key = std::move(key),
          .kind = FileKind::kFile,
          .size = 5,
          .version = Version::etag("\"e\""),
          .mtime = WallTime(std::chrono::nanoseconds(1'764'000'000'000'000'001))};
}

SourceObject directory_of(std::string key) {
  return {
      .key = std::move(key), .kind = FileKind::kDirectory, .size = 0, .version = {}, .mtime = {}};
}

void expect_same(const SourceObject& a, const SourceObject& b) {
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.size, b.size);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.mtime, b.mtime);
}

template <class Request>
HttpRequest travelled(const Request& request) {
  const HttpRequest http = to_http(request);
  HttpRequest there;
  there.headers = http.headers;
  EXPECT_TRUE(parse_target(make_target(http.path, http.query), there));
  return there;
}

TEST(NameMessages, IsTheDocumentedJson) {
  const ListResponse page{{{directory_of("a/"), file_of("b")}, "t", 3}, milliseconds(12)};
  EXPECT_EQ(encode_list_response(page),
            R"({"age_ms":12,"skipped":3,"next":"t","objects":[{"key":"a/","kind":"directory"},)"
            R"({"key":"b","kind":"file","size":5,"version":"1:\"e\"",)"
            R"("mtime_ns":1764000000000000001}]})");
  EXPECT_EQ(encode_stat_response({file_of("\xff"), milliseconds(1)}),
            R"({"age_ms":1,"key_base64":"/w==","kind":"file","size":5,"version":"1:\"e\"",)"
            R"("mtime_ns":1764000000000000001})");
}

TEST(FlatJson, AMemberMayFollowAList) {
  FlatJsonWriter json;
  json.begin_list("list");
  json.begin_item();
  json.number("a", 1);
  json.end_item();
  json.end_list();
  json.number("b", 2);
  EXPECT_EQ(json.take(), R"({"list":[{"a":1}],"b":2})");
}

TEST(NameMessages, RandomPagesComeBack) {
  testing::Random random;
  for (int i = 0; i < 50; ++i) {
    const std::string prefix = random.coin() ? "" : "p" + random.bytes(8, kNoSlash) + "/";
    std::set<std::string> keys;
    for (uint64_t left = random.upto(60); left > 0; --left) {
      keys.insert(prefix + "k" + random.bytes(30, kNoSlash) + (random.coin() ? "/" : ""));
    }
    ListResponse page;
    page.age = milliseconds(random.upto(INT64_MAX));
    page.page.skipped = random.upto(UINT64_MAX);
    page.page.next_token = random.bytes(40);
    for (const std::string& key : keys) {
      SourceObject object = key.ends_with('/') ? directory_of(key) : file_of(key);
      if (object.kind == FileKind::kFile) object.size = random.upto(UINT64_MAX);
      if (random.coin()) object.version = Version::etag("v" + random.bytes(20));
      if (random.coin()) object.mtime = WallTime(std::chrono::nanoseconds(random.bits()));
      page.page.objects.push_back(std::move(object));
    }
    auto back = decode_list_response(encode_list_response(page), prefix);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->age, page.age);
    EXPECT_EQ(back->page.skipped, page.page.skipped);
    EXPECT_EQ(back->page.next_token, page.page.next_token);
    ASSERT_EQ(back->page.objects.size(), page.page.objects.size());
    for (size_t n = 0; n < page.page.objects.size(); ++n) {
      expect_same(back->page.objects[n], page.page.objects[n]);
      auto stat = decode_stat_response(encode_stat_response({page.page.objects[n], page.age}));
      ASSERT_TRUE(stat) << stat.error().to_string();
      expect_same(stat->object, page.page.objects[n]);
      EXPECT_EQ(stat->age, page.age);
    }
  }
}

TEST(NameMessages, RequestsComeBack) {
  testing::Random random;
  for (int i = 0; i < 200; ++i) {
    PeerListRequest list{.mount = "/data",
                         .store = StoreId(Id128::random()),
                         .prefix = "p" + random.bytes(20, kNoSlash) + "/",
                         .token = random.bytes(30, std::string_view("\0", 1)),
                         .age_max = milliseconds(random.upto(INT64_MAX)),
                         .header = {.epoch = 3}};
    auto listed = list_request_from(travelled(list));
    ASSERT_TRUE(listed) << listed.error().to_string();
    EXPECT_EQ(listed->mount, list.mount);
    EXPECT_EQ(listed->store, list.store);
    EXPECT_EQ(listed->prefix, list.prefix);
    EXPECT_EQ(listed->token, list.token);
    EXPECT_EQ(listed->age_max, list.age_max);
    EXPECT_EQ(listed->header, list.header);
    const PeerStatRequest stat{.mount = "/data",
                               .store = list.store,
                               .key = random.coin() ? list.prefix : list.prefix + "x",
                               .age_max = list.age_max,
                               .header = {.epoch = 4}};
    auto asked = stat_request_from(travelled(stat));
    ASSERT_TRUE(asked) << asked.error().to_string();
    EXPECT_EQ(asked->key, stat.key);
    EXPECT_EQ(asked->header, stat.header);
  }
}

TEST(NameMessages, MalformedRequestsAreRejected) {
  const PeerListRequest list{.mount = "/data", .store = {}, .prefix = "p/", .token = {}};
  ASSERT_TRUE(list_request_from(to_http(list)));
  for (const auto& [name, value] : std::vector<std::pair<const char*, std::string>>{
           {"mount", ""},
           {"store", "x"},
           {"prefix", "p"},
           {"prefix", "/"},
           {"prefix", "../"},
           {"prefix", "a//"},
           {"age-ms", ""},
           {"age-ms", "-1"},
           {"epoch", "x"},
           {"token", std::string(kListTokenBytesMax + 1, 't')}}) {
    HttpRequest http = to_http(list);
    http.query[name] = value;
    EXPECT_FALSE(list_request_from(http)) << name << "=" << value;
  }
  const PeerStatRequest stat{.mount = "/data", .store = {}, .key = "k"};
  ASSERT_TRUE(stat_request_from(to_http(stat)));
  for (const char* key : {"", "/", "a//b", "..", "a/../b", "/a"}) {
    HttpRequest http = to_http(stat);
    http.query["key"] = key;
    EXPECT_FALSE(stat_request_from(http)) << key;
  }
}

TEST(NameMessages, AKindThatIsNotKnownHereIsLeftOut) {
  auto page = decode_list_response(
      R"({"age_ms":1,"skipped":2,"more":[[1],{"key":"x"}],"objects":[{"key":"a","kind":"link"},)"
      R"({"key":"b","kind":"file","size":1,"tags":["x",{"key":"y"}]},7,["key"]]})",
      "");
  ASSERT_TRUE(page) << page.error().to_string();
  EXPECT_EQ(page->page.skipped, 3u);
  ASSERT_EQ(page->page.objects.size(), 1u);
  EXPECT_EQ(page->page.objects[0].key, "b");
  EXPECT_FALSE(page->page.objects[0].version.known());
}

TEST(NameMessages, MalformedAnswersAreRejected) {
  auto page = [](const std::string& objects) {
    return decode_list_response(R"({"age_ms":1,"objects":[)" + objects + "]}", "p/").has_value();
  };
  const std::string good = R"({"key":"p/b","kind":"file"})";
  EXPECT_TRUE(page(good));
  EXPECT_FALSE(page(good + "," + good));
  EXPECT_FALSE(page(good + R"(,{"key":"p/a","kind":"file"})"));
  EXPECT_FALSE(page(R"({"key":"q/a","kind":"file"})"));
  EXPECT_FALSE(page(R"({"key":"p/","kind":"directory"})"));
  EXPECT_FALSE(page(R"({"key":"p/a","kind":"directory"})"));
  EXPECT_FALSE(page(R"({"key":"p/a/","kind":"file"})"));
  EXPECT_FALSE(page(R"({"key":"p/../a","kind":"file"})"));
  EXPECT_FALSE(page(R"({"kind":"file"})"));
  EXPECT_FALSE(page(R"({"key":"p/a"})"));
  EXPECT_FALSE(page(R"({"key":"p/a","kind":"file","size":-1})"));
  EXPECT_FALSE(page(R"({"key":"p/a","kind":"file","version":"x"})"));
  EXPECT_FALSE(page(R"({"key":"p/a","kind":"file","mtime_ns":"now"})"));
  EXPECT_FALSE(decode_list_response("", ""));
  EXPECT_FALSE(decode_list_response("[]", ""));
  EXPECT_FALSE(decode_list_response("{}", "")) << "no age";
  EXPECT_FALSE(decode_list_response(R"({"age_ms":-1})", ""));
  std::string many;
  for (size_t i = 0; i <= kListResponseObjectsMax; ++i) {
    if (i == kListResponseObjectsMax) EXPECT_TRUE(page(many));
    many += (i == 0 ? "" : ",") + (R"({"key":"p/)" + std::to_string(10'000 + i)) +
            R"(","kind":"file"})";
  }
  EXPECT_FALSE(page(many));
}

}  // namespace
}  // namespace leat
