// SPDX-License-Identifier: Apache-2.0
// Tests the advice of a failed request, for responses as the stores send them.
#include "source/stores/store_advice.h"

#include <gmock/gmock.h>

#include <ctime>
#include <mutex>
#include <string>

#include "source/lying_server_test.h"
#include "source/store_reader_test.h"

namespace leat {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::LyingServer;
using ::testing::Not;
using testing::StoreReader;

std::string answer(std::string_view status, std::string_view code, std::string_view text,
                   std::string_view lines = "") {
  const std::string body =
      code.empty() ? ""
                   : fmt::format(
                         "<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>{}</Message>"
                         "</Error>",
                         code, text);
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: application/xml\r\n{}Content-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      status, lines, body.size(), body);
}

class StoreAdvice : public ::testing::Test {
 protected:
  StoreAdvice() {
    server_.then([this](const LyingServer::Exchange& exchange) {
      std::lock_guard lock(mutex_);
      exchange.send(answer_);
    });
  }
  void tell(std::string answer) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  std::string read(std::string_view status, std::string_view code, std::string_view text,
                   std::string_view lines = "") {
    tell(answer(status, code, text, lines));
    return reader_.failure(0, 16).to_string();
  }
  std::string stat(std::string_view status, std::string_view lines = "") {
    tell(answer(status, "", "", lines));
    auto found = reader_.executor.block_on(reader_.source().stat({}, {.key = "key"}));
    EXPECT_FALSE(found);
    return found ? "" : found.error().to_string();
  }
  std::string list(std::string_view status, std::string_view code, std::string_view text,
                   std::string_view lines = "") {
    tell(answer(status, code, text, lines));
    auto page = reader_.executor.block_on(reader_.source().list({}, {.prefix = "", .token = ""}));
    EXPECT_FALSE(page);
    return page ? "" : page.error().to_string();
  }

  std::mutex mutex_;
  std::string answer_;
  LyingServer server_;
  StoreReader reader_{server_.endpoint()};
};

TEST_F(StoreAdvice, RegionIsNamed) {
  constexpr char kRegion[] = "x-amz-bucket-region: eu-west-1\r\n";
  constexpr char kText[] = "The bucket must be addressed using the specified endpoint.";
  const auto named = AllOf(HasSubstr("region=eu-west-1"), HasSubstr("it is us-east-1"),
                           HasSubstr(server_.endpoint()));
  EXPECT_THAT(read("301 Moved Permanently", "PermanentRedirect", kText, kRegion), named);
  EXPECT_THAT(list("301 Moved Permanently", "PermanentRedirect", kText, kRegion), named);
  EXPECT_THAT(stat("301 Moved Permanently", kRegion), named);
  EXPECT_THAT(stat("400 Bad Request", kRegion), named);
  EXPECT_THAT(list("400 Bad Request", "AuthorizationHeaderMalformed",
                   "The authorization header is malformed; the region 'us-east-1' is wrong; "
                   "expecting 'eu-west-1'"),
              named);
  EXPECT_THAT(list("400 Bad Request", "AuthorizationHeaderMalformed",
                   "the region &quot;us-east-1&quot; is wrong; expecting &quot;eu-west-1&quot;"),
              named);
  EXPECT_THAT(read("301 Moved Permanently", "PermanentRedirect", kText),
              AllOf(HasSubstr("region (it is us-east-1)"), HasSubstr("get-bucket-location")));
}

TEST_F(StoreAdvice, ClockIsNamed) {
  auto date = [](int shift) {
    std::time_t time = std::time(nullptr) + shift;
    std::tm parts{};
    gmtime_r(&time, &parts);
    char text[64];
    strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
    return std::string(text);
  };
  constexpr char kText[] = "The difference between the request time and the current time is large.";
  EXPECT_THAT(read("403 Forbidden", "RequestTimeTooSkewed", kText, date(7200)),
              AllOf(HasSubstr("clock of this machine is 7"), HasSubstr(" s behind the store's"),
                    HasSubstr("timedatectl set-ntp true")));
  EXPECT_THAT(stat("403 Forbidden", date(-7200)), HasSubstr(" s ahead of the store's"));
  EXPECT_THAT(stat("403 Forbidden", date(10)), Not(HasSubstr("clock")));
  EXPECT_THAT(read("403 Forbidden", "RequestTimeTooSkewed", kText), HasSubstr("timedatectl"));
}

TEST_F(StoreAdvice, ArchivedObjectIsRestoredFirst) {
  EXPECT_THAT(read("403 Forbidden", "InvalidObjectState",
                   "The operation is not valid for the object's storage class"),
              AllOf(HasSubstr("archived"), HasSubstr("restore-object --bucket bucket"),
                    Not(HasSubstr("credentials"))));
}

TEST_F(StoreAdvice, CustomersKeyIsNamed) {
  constexpr char kText[] =
      "The object was stored using a form of Server Side Encryption. The correct parameters must "
      "be "
      "provided to retrieve the object.";
  EXPECT_THAT(read("400 Bad Request", "InvalidRequest", kText),
              HasSubstr("sse_customer_key_file=FILE"));
  EXPECT_THAT(stat("400 Bad Request"),
              AllOf(HasSubstr("sse_customer_key_file=FILE"), HasSubstr("region (us-east-1)")));
}

TEST_F(StoreAdvice, KeyOfAKeyServiceIsNamed) {
  EXPECT_THAT(read("400 Bad Request", "KMS.DisabledException", "arn is disabled."),
              HasSubstr("kms:Decrypt"));
  EXPECT_THAT(read("403 Forbidden", "AccessDenied",
                   "User is not authorized to perform: kms:Decrypt on the resource"),
              HasSubstr("needs kms:Decrypt"));
}

TEST_F(StoreAdvice, RequesterPaysIsNamed) {
  EXPECT_THAT(read("403 Forbidden", "AccessDenied",
                   "Bucket is a requester pays bucket but no requester pays header found."),
              AllOf(HasSubstr("give the option requester_pays=true"), Not(HasSubstr("check the"))));
  EXPECT_THAT(read("403 Forbidden", "AccessDenied", "Access Denied"),
              AllOf(HasSubstr("check the credentials"), HasSubstr("requester_pays=true")));
  reader_.config.options["requester_pays"] = "true";
  StoreReader paying(server_.endpoint());
  paying.config = reader_.config;
  tell(answer("403 Forbidden", "AccessDenied", "Access Denied"));
  EXPECT_THAT(paying.failure(0, 16).to_string(), Not(HasSubstr("requester_pays")));
}

TEST_F(StoreAdvice, EndpointOfAMissingBucketIsNamed) {
  const std::string text = list("404 Not Found", "NoSuchBucket", "The bucket does not exist");
  EXPECT_THAT(text, AllOf(HasSubstr("name 'bucket'"), HasSubstr("endpoint that was used"),
                          HasSubstr(server_.endpoint())));
}

TEST_F(StoreAdvice, KeysOfAnotherServerAreNamed) {
  EXPECT_THAT(read("403 Forbidden", "InvalidAccessKeyId", "The key does not exist"),
              AllOf(HasSubstr("access key"), HasSubstr(server_.endpoint())));
}

}  // namespace
}  // namespace leat
