// SPDX-License-Identifier: Apache-2.0
// Tests stores that write one version of an object in several forms, and listings with an object
// without a time: they are read like any other.
#include "source/version_forms.h"

#include <gmock/gmock.h>

#include <mutex>
#include <string>

#include "source/lying_server_test.h"
#include "source/s3_request_test.h"
#include "source/store_answer_test.h"
#include "source/store_reader_test.h"
#include "source/stored_objects_test.h"

namespace leat {
namespace {

using ::testing::HasSubstr;
using testing::LyingServer;
using testing::S3Request;
using testing::StoreAnswer;
using testing::StoredObjects;
using testing::StoredVersion;
using testing::StoreReader;

constexpr char kKey[] = "d/key";
constexpr uint64_t kSize = 16;

// The ETag of a version in one kind of response; empty: none.
using Form = std::string (*)(const std::string& etag);

std::string as_it_is(const std::string& etag) {
  return etag;
}
std::string in_capitals(const std::string& etag) {
  std::string text = etag;
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}
std::string weak(const std::string& etag) {
  return "W/" + etag;
}
std::string bare(const std::string& etag) {
  return etag.substr(1, etag.size() - 2);
}
std::string missing(const std::string&) {
  return "";
}
std::string of_another_kind(const std::string& etag) {
  return "\"sha-" + etag.substr(1);
}

// A store with one form of versions in listings and another in objects. It compares the form of the
// objects, letter by letter.
class FormedStore {
 public:
  FormedStore(Form listed, Form found) : listed_(listed), found_(found) {
    server_.then([this](const LyingServer::Exchange& exchange) {
      exchange.send(answer(exchange.request));
      exchange.keep();
    });
  }

  StoredObjects& objects() { return objects_; }
  std::string endpoint() const { return server_.endpoint(); }
  size_t requests() const { return server_.requests().size(); }

 private:
  std::string answer(const std::string& text) {
    S3Request request = S3Request::parse(text, endpoint().substr(sizeof("http://") - 1), false);
    StoreAnswer answer = request.is_listing() ? listing(request) : object(request);
    return answer.head() + answer.body;
  }
  StoreAnswer listing(const S3Request& request) {
    StoreAnswer answer = StoreAnswer::lawful(request, objects_, 1000);
    for (const auto& [key, version] : objects_.current()) {
      const std::string element = "<ETag>" + version.etag + "</ETag>";
      const std::string form = listed_(version.etag);
      const size_t at = answer.body.find(element);
      if (at == std::string::npos) continue;
      answer.body.replace(at, element.size(), form.empty() ? "" : "<ETag>" + form + "</ETag>");
    }
    answer.length = answer.body.size();
    return answer;
  }
  StoreAnswer object(const S3Request& request) {
    if (objects_.versions(request.key) == 0) return StoreAnswer::lawful(request, objects_, 1000);
    StoredVersion version = objects_.version(request.key, objects_.versions(request.key) - 1);
    version.etag = found_(version.etag);
    StoreAnswer answer = StoreAnswer::object(request, version);
    if (version.etag.empty()) {
      std::erase_if(answer.headers, [](const auto& one) { return one.first == "ETag"; });
    }
    return answer;
  }

  const Form listed_, found_;
  StoredObjects objects_;
  LyingServer server_;  // last: its threads end first
};

struct Forms {
  const char* name;
  Form listed, found;
};
void PrintTo(const Forms& forms, std::ostream* out) {
  *out << forms.name;
}

class VersionFormsTest : public ::testing::TestWithParam<Forms> {
 protected:
  VersionFormsTest() {
    reader_.finds_forms = true;
    // An ETag with letters.
    for (int i = 0; i < 0xab; ++i) store_.objects().put("d/other", "other");
    store_.objects().put(kKey, testing::content(0, kSize));
  }

  // The source as a mount opens it.
  SourceObject listed() {
    auto page = reader_.executor.block_on(
        reader_.source().list(Context::background(), {.prefix = "d/", .token = ""}));
    EXPECT_TRUE(page) << page.error().to_string();
    return page->objects.at(0);
  }
  Result<SourceObject> stat() {
    return reader_.executor.block_on(reader_.source().stat(Context::background(), {.key = kKey}));
  }
  Result<std::string> read(const Version& version) {
    reader_.object_size = kSize;
    return reader_.read(0, kSize, kKey, version);
  }

  FormedStore store_{GetParam().listed, GetParam().found};
  StoreReader reader_{store_.endpoint()};
};

TEST_P(VersionFormsTest, ListedVersionIsRead) {
  for (int i = 0; i < 3; ++i) {
    auto got = read(listed().version);
    ASSERT_TRUE(got) << got.error().to_string();
    EXPECT_EQ(*got, testing::content(0, kSize));
  }
}

TEST_P(VersionFormsTest, StatAgreesWithTheListing) {
  const Version version = listed().version;
  ASSERT_TRUE(read(version));
  auto found = stat();
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(found->version, version);
}

TEST_P(VersionFormsTest, StatIsReadBeforeAnyListing) {
  auto found = stat();
  ASSERT_TRUE(found) << found.error().to_string();
  auto got = read(found->version);
  ASSERT_TRUE(got) << got.error().to_string();
}

TEST_P(VersionFormsTest, OverwrittenObjectIsChanged) {
  const Version before = listed().version;
  ASSERT_TRUE(read(before));
  store_.objects().put(kKey, testing::content(100, kSize + 1));
  auto got = read(before);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), StatusCode::kVersionChanged) << got.error().to_string();
}

TEST_P(VersionFormsTest, FormIsFoundOnce) {
  const Version version = listed().version;
  ASSERT_TRUE(read(version));
  const size_t before = store_.requests();
  ASSERT_TRUE(read(version));
  // One conditional read, or a stat before and after.
  EXPECT_LE(store_.requests() - before, 3u);
}

INSTANTIATE_TEST_SUITE_P(All, VersionFormsTest,
                         ::testing::Values(Forms{"Same", &as_it_is, &as_it_is},
                                           Forms{"Capitals", &as_it_is, &in_capitals},
                                           Forms{"CapitalsInListing", &in_capitals, &as_it_is},
                                           Forms{"WeakHead", &as_it_is, &weak},
                                           Forms{"WeakListing", &weak, &as_it_is},
                                           Forms{"BareListing", &bare, &as_it_is},
                                           Forms{"MissingInHead", &as_it_is, &missing},
                                           Forms{"MissingInListing", &missing, &as_it_is},
                                           Forms{"Missing", &missing, &missing},
                                           Forms{"OfAnotherKind", &as_it_is, &of_another_kind}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(VersionFormsOfAnOverwrite, SameSizeIsChanged) {
  FormedStore store(&as_it_is, &as_it_is);
  store.objects().put(kKey, testing::content(0, kSize));
  StoreReader reader(store.endpoint());
  reader.finds_forms = true;
  reader.object_size = kSize;
  auto before = reader.executor.block_on(reader.source().stat({}, {.key = kKey}));
  ASSERT_TRUE(before);
  store.objects().put(kKey, testing::content(100, kSize));
  auto got = reader.read(0, kSize, kKey, before->version);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), StatusCode::kVersionChanged);
}

// Descriptions of one object with and without a time.
class TimelessObjects : public ::testing::Test {
 protected:
  TimelessObjects() {
    server_.then([this](const LyingServer::Exchange& exchange) {
      exchange.send(answer());
      exchange.keep();
    });
  }
  Result<ListPage> list(const std::string& first, const std::string& type = "application/xml") {
    const std::string body = fmt::format(
        "<ListBucketResult>"
        "<Contents><Key>d/a</Key>{}<ETag>\"a\"</ETag><Size>1</Size></Contents>"
        "<Contents><Key>d/b</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
        "<ETag>\"b\"</ETag><Size>2</Size></Contents></ListBucketResult>",
        first);
    set(fmt::format("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}", type,
                    body.size(), body));
    return reader_.executor.block_on(
        reader_.source().list(Context::background(), {.prefix = "d/", .token = ""}));
  }
  void set(std::string answer) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  std::string answer() {
    std::lock_guard lock(mutex_);
    return answer_;
  }

  std::mutex mutex_;
  std::string answer_;
  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
};

TEST_F(TimelessObjects, AreListedWithoutATime) {
  for (const char* time : {"", "<LastModified></LastModified>", "<LastModified/>",
                           "<LastModified>yesterday</LastModified>",
                           "<LastModified>2026-13-45T99:00:00Z</LastModified>"}) {
    auto page = list(time);
    ASSERT_TRUE(page) << time << page.error().to_string();
    ASSERT_EQ(page->objects.size(), 2u) << time;
    EXPECT_EQ(page->objects[0].key, "d/a");
    EXPECT_EQ(page->objects[0].mtime, std::nullopt) << time;
    EXPECT_EQ(page->objects[0].version, Version::etag("\"a\""));
    EXPECT_TRUE(page->objects[1].mtime) << time;
  }
}

TEST_F(TimelessObjects, AreFoundWithoutATime) {
  for (const char* line : {"", "Last-Modified: yesterday\r\n", "Last-Modified: 2026-01-02\r\n"}) {
    set(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"a\"\r\n{}\r\n", line));
    auto found = reader_.executor.block_on(reader_.source().stat({}, {.key = "key"}));
    ASSERT_TRUE(found) << line << found.error().to_string();
    EXPECT_EQ(found->mtime, std::nullopt);
    EXPECT_EQ(found->size, 5u);
  }
}

TEST_F(TimelessObjects, AreListedOfGoogleAndAzureToo) {
  const std::string json =
      R"({"kind":"storage#objects","items":[)"
      R"({"name":"d/a","size":"1","etag":"e","generation":"7","updated":"never"},)"
      R"({"name":"d/b","size":"2","etag":"e","generation":"8","updated":"2026-01-02T03:04:05Z"}]})";
  const std::string xml =
      "<EnumerationResults><Blobs>"
      "<Blob><Name>d/a</Name><Properties><Content-Length>1</Content-Length><Etag>7</Etag>"
      "</Properties></Blob>"
      "<Blob><Name>d/b</Name><Properties><Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT"
      "</Last-Modified><Content-Length>2</Content-Length><Etag>8</Etag></Properties></Blob>"
      "</Blobs><NextMarker/></EnumerationResults>";
  for (const auto& [scheme, body] : {std::pair("gs", json), std::pair("az", xml)}) {
    set(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
    OpendalConfig config;
    config.scheme = scheme;
    config.bucket = "bucket";
    config.endpoint = server_.endpoint();
    config.options["anonymous"] = "true";
    config.options["account"] = "account";
    auto source = OpendalSource::open(config).value();
    auto page = reader_.executor.block_on(source->list({}, {.prefix = "d/", .token = ""}));
    ASSERT_TRUE(page) << scheme << page.error().to_string();
    ASSERT_EQ(page->objects.size(), 2u) << scheme;
    EXPECT_EQ(page->objects[0].mtime, std::nullopt) << scheme;
    EXPECT_TRUE(page->objects[1].mtime) << scheme;
    EXPECT_EQ(page->objects[1].size, 2u) << scheme;
  }
}

}  // namespace
}  // namespace leat
