// SPDX-License-Identifier: Apache-2.0
// Codes of S3 are listed at https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html,
// those of Azure at https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes.
#include "source/stores/store_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "source/stores/opendal_source.h"

namespace leat {
namespace {

// Clock errors of this size are named beside a rejected signature: stores accept 15 minutes.
constexpr std::chrono::seconds kClockErrorMin{14 * 60};

class Advice {
 public:
  Advice(const Status& failure, const StoreErrorDetails& details, const OpendalConfig& config)
      : failure_(failure), details_(details), config_(config) {}

  std::string text() const {
    for (auto advice :
         {&Advice::of_clock, &Advice::of_region, &Advice::of_archive, &Advice::of_keys,
          &Advice::of_payer, &Advice::of_bucket, &Advice::of_proxy}) {
      if (std::string found = (this->*advice)(); !found.empty()) return "; " + found;
    }
    std::string found = of_status();
    return found.empty() ? found : "; " + found;
  }

 private:
  bool is_s3() const { return config_.scheme == "s3"; }
  bool is_any(std::initializer_list<std::string_view> codes) const {
    return std::ranges::find(codes, details_.code) != codes.end();
  }
  bool mentions(std::string_view words) const {
    auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
    return !std::ranges::search(failure_.message(), words, {}, lower, lower).empty();
  }
  bool has(const char* option) const { return config_.options.contains(option); }
  std::string option(const char* name) const {
    auto given = config_.options.find(name);
    return given == config_.options.end() ? "" : given->second;
  }

  std::string of_clock() const {
    const bool by_code = is_any({"RequestTimeTooSkewed", "RequestExpired"});
    const bool by_date =
        details_.http_status == 403 && std::chrono::abs(details_.clock_ahead) >= kClockErrorMin;
    if (!by_code && !by_date) return "";
    std::string wrong = "is not the store's";
    if (details_.clock_ahead.count() != 0) {
      wrong = fmt::format("is {} s {} the store's", std::chrono::abs(details_.clock_ahead).count(),
                          details_.clock_ahead.count() > 0 ? "ahead of" : "behind");
    }
    return fmt::format(
        "the clock of this machine {}: set it, for instance by "
        "'timedatectl set-ntp true'",
        wrong);
  }

  // "… the region 'us-east-1' is wrong; expecting 'eu-west-1'", in either kind of quotes.
  std::string expected_region() const {
    if (!details_.region.empty()) return details_.region;
    constexpr std::string_view kMark = "expecting ";
    const size_t at = failure_.message().find(kMark);
    if (at == std::string::npos) return "";
    std::string_view rest = std::string_view(failure_.message()).substr(at + kMark.size());
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"')) return "";
    const char quote = rest[0];
    rest.remove_prefix(1);
    return std::string(rest.substr(0, rest.find(quote)));
  }

  std::string of_region() const {
    if (!is_s3()) return "";
    const std::string expected = expected_region();
    const bool by_code = is_any({"PermanentRedirect", "AuthorizationHeaderMalformed",
                                 "TemporaryRedirect", "IllegalLocationConstraintException"});
    const bool by_status = details_.http_status == 301 || details_.http_status == 400;
    const bool differs = !expected.empty() && expected != option("region");
    if (!by_code && details_.http_status != 301 && !(by_status && differs)) return "";
    if (differs) {
      return fmt::format(
          "the bucket is in another region: give the option region={} (it is {}; "
          "the endpoint is {})",
          expected, option("region"), config_.endpoint);
    }
    return fmt::format(
        "the bucket has another region or endpoint: give the options region (it is "
        "{}) and endpoint (it is {}); 'aws s3api get-bucket-location --bucket {}' "
        "names the region",
        option("region"), config_.endpoint, config_.bucket);
  }

  std::string of_archive() const {
    if (is_any({"BlobArchived", "BlobBeingRehydrated"})) {
      return "the blob is archived: 'az storage blob set-tier --tier Hot' brings it back within "
             "hours";
    }
    if (!is_any({"InvalidObjectState"})) return "";
    if (!is_s3()) return "the object is archived: restore it first, with the store's own tools";
    return fmt::format(
        "the object is archived (Glacier, Deep Archive): restore it first, by 'aws s3api "
        "restore-object --bucket {} --key KEY --restore-request Days=7'",
        config_.bucket);
  }

  // Objects that are encrypted with a customer key or a key of a key service.
  std::string of_keys() const {
    if (!is_s3()) return "";
    if (details_.code.starts_with("KMS.") || (details_.http_status == 403 && mentions("kms"))) {
      return fmt::format(
          "the object is encrypted with a KMS key: the key must be enabled, and the "
          "account ({}) needs kms:Decrypt on it",
          config_.credentials);
    }
    const bool by_text = details_.http_status == 400 &&
                         (mentions("server side encryption") || mentions("encryption key") ||
                          mentions("encryption parameters"));
    // A response to HEAD has no text.
    const bool may_be = details_.http_status == 400 && details_.code.empty();
    if (!by_text && !may_be) return "";
    if (has("sse_customer_key_file")) {
      return fmt::format(
          "the key in {} (option sse_customer_key_file) is not the one that the "
          "object is encrypted with",
          option("sse_customer_key_file"));
    }
    constexpr char kOption[] = "give the option sse_customer_key_file=FILE";
    if (by_text) return fmt::format("the object is encrypted with a customer's key: {}", kOption);
    return fmt::format(
        "check the region ({}) and the endpoint ({}); if the object is encrypted "
        "with a customer's key, {}",
        option("region"), config_.endpoint, kOption);
  }

  std::string of_payer() const {
    if (details_.code == "UserProjectMissing") {
      return "the bucket is requester pays, and gs:// has no option for the project that pays";
    }
    if (!is_s3() || has("requester_pays") || !mentions("requester pays")) return "";
    return "the bucket is requester pays: give the option requester_pays=true";
  }

  std::string of_bucket() const {
    if (is_any({"NoSuchBucket", "ContainerNotFound", "InvalidBucketName"})) {
      return fmt::format("check the name '{}' and the endpoint that was used ({})", config_.bucket,
                         config_.endpoint);
    }
    if (is_any({"InvalidAccessKeyId", "SignatureDoesNotMatch"})) {
      return fmt::format(
          "check access key and secret ({}), and whether they are of the endpoint "
          "that was used ({})",
          config_.credentials, config_.endpoint);
    }
    return "";
  }

  std::string of_proxy() const {
    if (details_.proxy.empty() || failure_.code() != StatusCode::kUnavailable) return "";
    return fmt::format("check that proxy, or name the host of {} in no_proxy", config_.endpoint);
  }

  std::string of_status() const {
    switch (failure_.code()) {
      case StatusCode::kPermissionDenied: {
        const bool may_pay = is_s3() && details_.http_status == 403 && !has("requester_pays");
        return fmt::format(
            "check the credentials ({}) and what they may do with this bucket{}",
            config_.credentials,
            may_pay ? "; a requester-pays bucket needs the option requester_pays=true" : "");
      }
      case StatusCode::kUnavailable:
        return fmt::format("check that {} can be reached", config_.endpoint);
      case StatusCode::kInternal:
      case StatusCode::kInvalidArgument: {
        std::string advice = fmt::format("check the endpoint ({})", config_.endpoint);
        if (has("region")) advice += fmt::format(" and the region ({})", option("region"));
        return advice;
      }
      default:
        return "";
    }
  }

  const Status& failure_;
  const StoreErrorDetails& details_;
  const OpendalConfig& config_;
};

}  // namespace

std::string store_advice(const Status& failure, const StoreErrorDetails& details,
                         const OpendalConfig& config) {
  return Advice(failure, details, config).text();
}

}  // namespace leat
