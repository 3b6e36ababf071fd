// SPDX-License-Identifier: Apache-2.0
// Tests directories as web servers show them, and servers without ranges.
#include <gmock/gmock.h>

#include <mutex>
#include <string>
#include <vector>

#include "source/lying_server_test.h"
#include "source/nginx_test.h"
#include "source/python_server_test.h"
#include "source/store_reader_test.h"

namespace leat {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LyingServer;
using testing::StoreReader;

using Names = std::vector<std::string>;

// Entries parsed from an index page of some server for the directory "d/".
class WebIndex : public ::testing::Test {
 protected:
  WebIndex() {
    reader_.config.scheme = "http";
    server_.then([this](const LyingServer::Exchange& exchange) {
      const bool is_head = exchange.request.starts_with("HEAD");
      exchange.send(is_head ? "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"e\"\r\n\r\n"
                            : page());
      exchange.keep();
    });
  }

  Result<Names> list(const std::string& body, const std::string& type = "text/html") {
    {
      std::lock_guard lock(mutex_);
      page_ = fmt::format("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}",
                          type, body.size(), body);
    }
    LEAT_TRY(ListPage page, reader_.executor.block_on(reader_.source().list(
                                Context::background(), {.prefix = "d/", .token = ""})));
    Names names;
    for (const SourceObject& object : page.objects) names.push_back(object.key);
    return names;
  }
  Names names(const std::string& body, const std::string& type = "text/html") {
    Result<Names> found = list(body, type);
    EXPECT_TRUE(found) << found.error().to_string();
    return found.value_or(Names());
  }
  // An index page with these links.
  static std::string index(const std::vector<std::string>& links) {
    std::string body = "<html><head><title>Index of /d/</title></head><body>";
    for (const std::string& link : links) body += fmt::format("<a href=\"{}\">name</a>\n", link);
    return body + "</body></html>";
  }

 private:
  std::string page() {
    std::lock_guard lock(mutex_);
    return page_;
  }

  std::mutex mutex_;
  std::string page_;

 protected:
  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
};

TEST_F(WebIndex, LinksAreResolvedAsUrls) {
  const std::string host = server_.endpoint().substr(sizeof("http://") - 1);
  EXPECT_THAT(names(index({"/d/x"})), ElementsAre("d/x"));
  EXPECT_THAT(names(index({"/d/sub/"})), ElementsAre("d/sub/"));
  EXPECT_THAT(names(index({"./a:b"})), ElementsAre("d/a:b"));
  EXPECT_THAT(names(index({"a%3Ab"})), ElementsAre("d/a:b"));
  EXPECT_THAT(names(index({"../d/x", "x/../y", "./z"})), ElementsAre("d/x", "d/y", "d/z"));
  EXPECT_THAT(names(index({"http://" + host + "/d/x", "//" + host + "/d/y"})),
              ElementsAre("d/x", "d/y"));
  EXPECT_THAT(names(index({"x?a=b", "y#part", "a%20b", "a&amp;b", "a&#43;c"})),
              ElementsAre("d/a b", "d/a&b", "d/a+c", "d/x", "d/y"));
  EXPECT_THAT(names(index({"%2564", "x"})), ElementsAre("d/%64", "d/x"));
}

TEST_F(WebIndex, LinksToOtherPlacesAreNoNames) {
  EXPECT_THAT(names(index({"../", "/", "./", "?C=N;O=D", "/d/?C=M", "#top", "/d", "mailto:a@b",
                           "javascript:go()", "http://other.example/d/x", "//other.example/d/y"})),
              IsEmpty());
  EXPECT_THAT(names(index({"x", "/e/f", "sub/deeper"})), ElementsAre("d/x"));
}

TEST_F(WebIndex, QuotesAndCaseDoNotMatter) {
  EXPECT_THAT(names("<TITLE>Index of /d/</TITLE><A HREF='x'>x</A><a class=n href=y>y</a>"
                    "<a data-href=\"no\" href = \"z\">z</a><abbr href=\"q\"></abbr>"),
              ElementsAre("d/x", "d/y", "d/z"));
}

TEST_F(WebIndex, NoLinkIntoTheDirectoryIsAnError) {
  auto found = list(index({"../", "/data/x", "/data/y"}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), StatusCode::kUnsupported);
  EXPECT_THAT(found.error().to_string(),
              AllOf(HasSubstr("none of the 2 links"), HasSubstr("(/d/)"), HasSubstr("'/data/x'")));
}

TEST_F(WebIndex, APageThatIsNoIndexIsAnError) {
  auto found = list("<html><head><title>Welcome</title></head><a href=\"x\">x</a></html>");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().to_string(), HasSubstr("shows no index"));
  found = list("not json", "application/json");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().to_string(), HasSubstr("shows no index"));
}

TEST_F(WebIndex, AnS3ListingSaysHowToMountIt) {
  auto found = list(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<Contents><Key>d/x</Key></Contents></ListBucketResult>",
      "application/xml");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().to_string(), AllOf(HasSubstr("listing of an S3 bucket"),
                                               HasSubstr("s3://"), HasSubstr("anonymous=true")));
}

// In the form of Apache httpd 2.4 with IndexOptions FancyIndexing HTMLTable.
TEST_F(WebIndex, OfApache) {
  EXPECT_THAT(
      names(
          "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 3.2 Final//EN\">\n<html>\n <head>\n"
          "  <title>Index of /d</title>\n </head>\n <body>\n<h1>Index of /d</h1>\n  <table>\n"
          "<tr><th><img src=\"/icons/blank.gif\" alt=\"[ICO]\"></th>"
          "<th><a href=\"?C=N;O=D\">Name</a></th><th><a href=\"?C=M;O=A\">Last modified</a></th>"
          "</tr>\n<tr><td><img src=\"/icons/back.gif\"></td><td><a href=\"/\">Parent Directory</a>"
          "</td></tr>\n<tr><td></td><td><a href=\"sub/\">sub/</a></td></tr>\n"
          "<tr><td></td><td><a href=\"a%20%26%20b.txt\">a &amp; b.txt</a></td></tr>\n"
          "</table>\n<address>Apache/2.4.57 (Debian) Server at h Port 80</address>\n"
          "</body></html>\n"),
      ElementsAre("d/a & b.txt", "d/sub/"));
}

// lighttpd 1.4, mod_dirlisting.
TEST_F(WebIndex, OfLighttpd) {
  EXPECT_THAT(
      names("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!DOCTYPE html>\n<html>\n<head>\n"
            "<title>Index of /d/</title>\n</head>\n<body>\n<h2>Index of /d/</h2>\n"
            "<div class=\"list\"><table summary=\"Directory Listing\"><tbody>\n"
            "<tr class=\"d\"><td class=\"n\"><a href=\"../\">..</a>/</td></tr>\n"
            "<tr class=\"d\"><td class=\"n\"><a href=\"sub/\">sub</a>/</td></tr>\n"
            "<tr><td class=\"n\"><a href=\"a%2bb.bin\">a+b.bin</a></td></tr>\n"
            "</tbody></table></div><div class=\"foot\">lighttpd/1.4.69</div>\n</body></html>\n"),
      ElementsAre("d/a+b.bin", "d/sub/"));
}

// Caddy 2, `file_server browse`: JSON for clients that accept it, as Leat does, and its page.
TEST_F(WebIndex, OfCaddy) {
  EXPECT_THAT(names(R"([{"name":"sub/","size":4096,"url":"./sub/","is_dir":true},)"
                    R"({"name":"a b.txt","size":5,"url":"./a%20b.txt","is_dir":false}])",
                    "application/json; charset=utf-8"),
              ElementsAre("d/a b.txt", "d/sub/"));
  EXPECT_THAT(names("null", "application/json"), IsEmpty());
  EXPECT_THAT(
      names("<!DOCTYPE html><html><head><title>d</title></head><body><header>"
            "<div class=\"breadcrumbs\">Folder Path</div><h1><a href=\"../\">/</a>"
            "<a href=\"\">d</a>/</h1></header><table><tr><td><a href=\"./sub/\">sub</a></td></tr>"
            "<tr><td><a href=\"./a%20b.txt\">a b.txt</a></td></tr></table><footer>Served with "
            "<a rel=\"noopener noreferrer\" href=\"https://caddyserver.com\">Caddy</a></footer>"
            "</body></html>"),
      ElementsAre("d/a b.txt", "d/sub/"));
}

TEST_F(WebIndex, OfInternetInformationServices) {
  EXPECT_THAT(names("<html><head><title>host - /d/</title></head><body><H1>host - /d/</H1><hr>\n"
                    "<pre><A HREF=\"/\">[To Parent Directory]</A><br><br> 1/2/2026  3:04 AM "
                    "&lt;dir&gt; <A HREF=\"/d/sub/\">sub</A><br> 1/2/2026  3:04 AM  5 "
                    "<A HREF=\"/d/x.txt\">x.txt</A><br></pre><hr></body></html>"),
              ElementsAre("d/sub/", "d/x.txt"));
}

TEST(NginxIndex, OfAnEmptyDirectoryIsEmpty) {
  auto server = testing::NginxServer::start();
  ASSERT_TRUE(server) << testing::NginxServer::kHowToGetIt;
  std::filesystem::create_directories(server->folder() / "empty");
  StoreReader reader(server->endpoint());
  reader.config.scheme = "http";
  auto page = reader.executor.block_on(reader.source().list({}, {.prefix = "empty/", .token = ""}));
  ASSERT_TRUE(page) << page.error().to_string();
  EXPECT_THAT(page->objects, IsEmpty());
}

// A server that sends whole objects for any requested range.
class WithoutRanges : public ::testing::Test {
 protected:
  explicit WithoutRanges(std::string scheme = "http") {
    reader_.config.scheme = std::move(scheme);
    server_.then([](const LyingServer::Exchange& exchange) {
      const std::string head = fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", kSize);
      if (exchange.send(head)) exchange.send(testing::content(0, kSize));
      exchange.keep();
    });
  }
  static constexpr uint64_t kSize = 300'000;
  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
};

TEST_F(WithoutRanges, AnyRangeIsRead) {
  for (auto [offset, size] : {std::pair<uint64_t, uint64_t>{0, kSize},
                              {0, 10},
                              {1, 10},
                              {200'000, 100'000},
                              {kSize - 1, 1},
                              {70'000, 150'000}}) {
    EXPECT_TRUE(reader_.reads(offset, size)) << offset;
  }
}

TEST_F(WithoutRanges, ARangePastTheEndIsOutOfRange) {
  EXPECT_EQ(reader_.failure(kSize - 1, 2).code(), StatusCode::kOutOfRange);
  reader_.object_size = kSize + 1;  // a machine in between has answered
  EXPECT_EQ(reader_.failure(0, kSize + 1).code(), StatusCode::kUnavailable);
}

TEST_F(WithoutRanges, AnObjectOfAnotherSizeIsRefused) {
  reader_.object_size = kSize - 1;
  Status status = reader_.failure(0, 10);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.to_string(), HasSubstr("a part of 300000 bytes"));
}

TEST_F(WithoutRanges, ABodyThatIsCutIsNoSuccess) {
  server_.then([](const LyingServer::Exchange& exchange) {
    exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" +
                  testing::content(0, 50'000));
  });
  EXPECT_TRUE(reader_.reads(0, 10));  // by the previous script
  EXPECT_EQ(reader_.failure(100'000, 10).code(), StatusCode::kUnavailable);
  EXPECT_EQ(reader_.failure(40'000, 20'000).code(), StatusCode::kUnavailable);
}

TEST(WithoutRangesOfStock, AreReadLikewise) {
  if (std::getenv("LEAT_TRANSPORT") != nullptr) return;
  auto child = testing::run_again("WithoutRanges.*", {"LEAT_TRANSPORT=stock"});
  EXPECT_EQ(child.status, 0) << child.output;
}

TEST(WithoutRangesOfOthers, LargeObjectsAndOtherStoresAreRefused) {
  LyingServer server;
  server.then([](const LyingServer::Exchange& exchange) {
    exchange.send("HTTP/1.1 200 OK\r\nContent-Length: 67108865\r\n\r\n0123456789");
    exchange.stall();
  });
  StoreReader web(server.endpoint());
  web.config.scheme = "http";
  Status status = web.failure(1, 5);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("objects of up to 64 MiB"),
                                        HasSubstr("this one has 67108865 bytes")));
  StoreReader s3(server.endpoint());
  EXPECT_THAT(s3.failure(1, 5).to_string(), HasSubstr("ignored the range"));
}

}  // namespace
}  // namespace leat
