// SPDX-License-Identifier: Apache-2.0
#include "source/stores/schemes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "source/stores/url_options.h"

namespace leat {
namespace {

// OpenDAL inserts the region into this endpoint.
constexpr char kAwsEndpoint[] = "https://s3.amazonaws.com";

std::string option(const StoreUrl& url, const std::string& name, std::string otherwise = "") {
  return option_or_environment(url, name, {}, std::move(otherwise));
}

// Options of all schemes: the bucket, and requests without credentials.
Result<OpendalConfig> begin(const StoreUrl& url, std::string_view scheme) {
  OpendalConfig config;
  config.scheme = scheme;
  config.bucket = url.bucket;
  LEAT_TRY(bool anonymous, either("anonymous", option(url, "anonymous", "false"), "true", "false"));
  if (anonymous) {
    config.options["anonymous"] = "true";
    config.account = "anonymous";
  }
  return config;
}

// An option that the shim takes under the same name.
void pass_on(OpendalConfig& config, const StoreUrl& url, const std::string& name) {
  if (std::string value = option(url, name); !value.empty()) config.options[name] = value;
}

// Adds options that identify the requester or its requests: mounts that differ in them share no
// source.
void identify(OpendalConfig& config, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    auto given = config.options.find(name);
    if (given == config.options.end()) continue;
    if (!config.account.empty()) config.account += ", ";
    config.account += fmt::format("{} {}", name, given->second);
  }
}

// Returns kInvalidArgument for an option that needs another one, or contradicts it.
Result<> check_together(const OpendalConfig& config, const char* name, const char* other,
                        bool together) {
  if (!config.options.contains(name) || config.options.contains(other) == together) return {};
  return error(StatusCode::kInvalidArgument,
               fmt::format("option {} {} option {}", name,
                           together ? "has no effect without" : "cannot be given with", other));
}

// Credentials of this mount alone: a file in the form of the store's own tools.
Result<> pass_on_credentials(OpendalConfig& config, const StoreUrl& url) {
  pass_on(config, url, "credentials");
  LEAT_CHECK_OK(check_together(config, "credentials", "anonymous", false));
  identify(config, {"credentials"});
  return {};
}

// Returns kInvalidArgument if the option is empty, with an example.
Result<std::string> demand(const StoreUrl& url, const std::string& name, std::string value,
                           std::string_view example) {
  if (!value.empty()) return value;
  return error(StatusCode::kInvalidArgument,
               fmt::format("source {} needs the option {}, such as {}={}", url.to_string(), name,
                           name, example));
}

// Encryption by the store, and requester pays.
Result<> configure_s3_headers(OpendalConfig& config, const StoreUrl& url) {
  static constexpr std::array<std::string_view, 3> kEncryptions = {"AES256", "aws:kms",
                                                                   "aws:kms:dsse"};
  for (const char* name : {"sse", "sse_kms_key", "sse_customer_key_file"}) {
    pass_on(config, url, name);
  }
  const std::string encryption = option(url, "sse");
  if (!encryption.empty() && std::ranges::find(kEncryptions, encryption) == kEncryptions.end()) {
    return error(
        StatusCode::kInvalidArgument,
        fmt::format("option sse={} is none of {}", encryption, fmt::join(kEncryptions, ", ")));
  }
  if (config.options.contains("sse_kms_key") && !encryption.starts_with("aws:kms")) {
    return error(StatusCode::kInvalidArgument,
                 "option sse_kms_key has no effect without sse=aws:kms or sse=aws:kms:dsse");
  }
  LEAT_CHECK_OK(check_together(config, "sse_customer_key_file", "sse", false));
  LEAT_TRY(bool pays,
           either("requester_pays", option(url, "requester_pays", "false"), "true", "false"));
  if (pays) config.options["requester_pays"] = "true";
  return {};
}

// The origin of the base credentials, and the role that they assume.
Result<> configure_s3_role(OpendalConfig& config, const StoreUrl& url) {
  for (const char* name : {"profile", "role", "role_session", "external_id"}) {
    pass_on(config, url, name);
  }
  LEAT_CHECK_OK(check_together(config, "role_session", "role", true));
  LEAT_CHECK_OK(check_together(config, "external_id", "role", true));
  for (const char* name : {"profile", "role"}) {
    LEAT_CHECK_OK(check_together(config, name, "anonymous", false));
  }
  if (config.options.contains("role")) {
    config.options["role_session"] =
        option_or_environment(url, "role_session", {"AWS_ROLE_SESSION_NAME"}, "leat");
  }
  std::string sts = option_or_environment({}, "", {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"}, "");
  if (!sts.empty()) {
    LEAT_TRY(config.options["sts_endpoint"], canonical_endpoint(std::move(sts), /*path=*/true));
  }
  return {};
}

Result<OpendalConfig> configure_s3(const StoreUrl& url) {
  LEAT_TRY(OpendalConfig config, begin(url, "s3"));
  LEAT_TRY(config.endpoint,
           canonical_endpoint(option_or_environment(
               url, "endpoint", {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, kAwsEndpoint)));
  config.options["region"] =
      option_or_environment(url, "region", {"AWS_REGION", "AWS_DEFAULT_REGION"}, "us-east-1");
  LEAT_CHECK_OK(pass_on_credentials(config, url));
  LEAT_CHECK_OK(configure_s3_role(config, url));
  LEAT_CHECK_OK(configure_s3_headers(config, url));
  identify(config, {"profile", "role", "role_session", "external_id", "sse", "sse_kms_key",
                    "sse_customer_key_file", "requester_pays"});
  // A virtual host with a dot does not match the certificate.
  bool path = config.endpoint != kAwsEndpoint || config.bucket.contains('.');
  std::string addressing = option(url, "addressing", path ? "path" : "virtual");
  LEAT_TRY(bool virtual_host, either("addressing", addressing, "virtual", "path"));
  config.options["virtual_host"] = virtual_host ? "true" : "false";
  return config;
}

Result<OpendalConfig> configure_gs(const StoreUrl& url) {
  LEAT_TRY(OpendalConfig config, begin(url, "gs"));
  LEAT_TRY(config.endpoint,
           canonical_endpoint(option_or_environment(url, "endpoint", {"STORAGE_EMULATOR_HOST"},
                                                    "https://storage.googleapis.com")));
  LEAT_CHECK_OK(pass_on_credentials(config, url));
  return config;
}

Result<OpendalConfig> configure_azure(const StoreUrl& url, std::string_view scheme,
                                      std::string_view service) {
  LEAT_TRY(OpendalConfig config, begin(url, scheme));
  std::string account = option_or_environment(url, "account", {"AZURE_STORAGE_ACCOUNT_NAME"}, "");
  std::string endpoint = option(url, "endpoint");
  // abfs://container@account.dfs.core.windows.net/path
  if (size_t at = url.bucket.find('@'); at != std::string::npos) {
    config.bucket = url.bucket.substr(0, at);
    const std::string host = url.bucket.substr(at + 1);
    if (account.empty()) account = host.substr(0, host.find('.'));
    if (endpoint.empty()) endpoint = "https://" + host;
  }
  if (endpoint.empty()) {
    LEAT_TRY(account, demand(url, "account", account, "mystorageaccount"));
    endpoint = fmt::format("https://{}.{}.core.windows.net", account, service);
  }
  LEAT_TRY(config.endpoint, canonical_endpoint(std::move(endpoint), /*path=*/true));
  if (!account.empty()) config.options["account"] = account;
  LEAT_CHECK_OK(pass_on_credentials(config, url));
  return config;
}

Result<OpendalConfig> configure_az(const StoreUrl& url) {
  return configure_azure(url, "az", "blob");
}

Result<OpendalConfig> configure_abfs(const StoreUrl& url) {
  return configure_azure(url, "abfs", "dfs");
}

// Stores with an endpoint that contains a region.
Result<OpendalConfig> configure_regional(const StoreUrl& url, std::string_view scheme,
                                         fmt::format_string<std::string&> pattern) {
  LEAT_TRY(OpendalConfig config, begin(url, scheme));
  std::string endpoint = option(url, "endpoint");
  if (endpoint.empty()) {
    LEAT_TRY(std::string region, demand(url, "region", option(url, "region"), "cn-north-1"));
    endpoint = fmt::format(pattern, region);
  }
  LEAT_TRY(config.endpoint, canonical_endpoint(std::move(endpoint)));
  LEAT_CHECK_OK(pass_on_credentials(config, url));
  return config;
}

Result<OpendalConfig> configure_oss(const StoreUrl& url) {
  return configure_regional(url, "oss", "https://oss-{}.aliyuncs.com");
}

Result<OpendalConfig> configure_cos(const StoreUrl& url) {
  return configure_regional(url, "cos", "https://cos.{}.myqcloud.com");
}

Result<OpendalConfig> configure_obs(const StoreUrl& url) {
  return configure_regional(url, "obs", "https://obs.{}.myhuaweicloud.com");
}

Result<OpendalConfig> configure_b2(const StoreUrl& url) {
  LEAT_TRY(OpendalConfig config, begin(url, "b2"));
  LEAT_TRY(config.options["bucket_id"],
           demand(url, "bucket_id", option(url, "bucket_id"), "e73ede9c9c8412db49f60715"));
  config.endpoint = "https://api.backblazeb2.com";
  LEAT_CHECK_OK(pass_on_credentials(config, url));
  return config;
}

Result<OpendalConfig> configure_hdfs(const StoreUrl& url) {
  LEAT_TRY(OpendalConfig config, begin(url, "hdfs"));
  config.endpoint = "hdfs://" + url.bucket;
  return config;
}

Result<OpendalConfig> configure_webhdfs(const StoreUrl& url) {
  LEAT_TRY(OpendalConfig config, begin(url, "webhdfs"));
  LEAT_TRY(bool tls, either("tls", option(url, "tls", "false"), "true", "false"));
  LEAT_TRY(config.endpoint,
           canonical_endpoint(fmt::format("{}://{}", tls ? "https" : "http", url.bucket)));
  config.options["user"] = option_or_environment(url, "user", {"HADOOP_USER_NAME"}, "");
  config.account = config.options["user"];
  LEAT_CHECK_OK(pass_on_credentials(config, url));
  return config;
}

Result<OpendalConfig> configure_http(const StoreUrl& url) {
  LEAT_TRY(OpendalConfig config, begin(url, "http"));
  LEAT_TRY(config.endpoint, canonical_endpoint(fmt::format("{}://{}", url.scheme, url.bucket)));
  config.bucket = config.endpoint.substr(config.endpoint.find("://") + 3);
  config.url = config.endpoint;
  return config;
}

// "datasets", "spaces" or the owner of models is in the place of the bucket.
Result<OpendalConfig> configure_hf(const StoreUrl& url) {
  LEAT_TRY(OpendalConfig config, begin(url, "hf"));
  LEAT_TRY(config.endpoint, canonical_endpoint(option_or_environment(
                                url, "endpoint", {"HF_ENDPOINT"}, "https://huggingface.co")));
  LEAT_CHECK_OK(pass_on_credentials(config, url));
  return config;
}

Result<OpendalConfig> configure_sftp(const StoreUrl& url) {
  LEAT_TRY(OpendalConfig config, begin(url, "sftp"));
  config.endpoint = "ssh://" + url.bucket;
  for (const char* name : {"key", "user", "known_hosts"}) pass_on(config, url, name);
  config.account = option(url, "user");
  return config;
}

constexpr std::array<std::string_view, 13> kS3Options = {
    "addressing",  "anonymous",    "credentials", "endpoint",
    "external_id", "profile",      "region",      "requester_pays",
    "role",        "role_session", "sse",         "sse_customer_key_file",
    "sse_kms_key"};
constexpr std::array<std::string_view, 3> kGsOptions = {"anonymous", "credentials", "endpoint"};
constexpr std::array<std::string_view, 4> kAzOptions = {"account", "anonymous", "credentials",
                                                        "endpoint"};
constexpr std::array<std::string_view, 3> kAbfsOptions = {"account", "credentials", "endpoint"};
constexpr std::array<std::string_view, 4> kOssOptions = {"anonymous", "credentials", "endpoint",
                                                         "region"};
constexpr std::array<std::string_view, 3> kRegionalOptions = {"credentials", "endpoint", "region"};
constexpr std::array<std::string_view, 2> kB2Options = {"bucket_id", "credentials"};
constexpr std::array<std::string_view, 3> kWebhdfsOptions = {"credentials", "tls", "user"};
constexpr std::array<std::string_view, 3> kHfOptions = {"anonymous", "credentials", "endpoint"};
constexpr std::array<std::string_view, 3> kSftpOptions = {"key", "known_hosts", "user"};

constexpr std::string_view kAzureCredentials =
    "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_CLIENT_ID and its companions, or "
    "the machine's identity";

constexpr std::array<Scheme, 14> kSchemes = {{
    {"s3", kS3Options,
     "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, ~/.aws with AWS_PROFILE or profile=, or the "
     "machine's role; role= is assumed with them",
     false, &configure_s3},
    {"gs", kGsOptions,
     "the file that credentials= or GOOGLE_APPLICATION_CREDENTIALS names, or the machine's account",
     false, &configure_gs},
    {"az", kAzOptions, kAzureCredentials, false, &configure_az},
    {"abfs", kAbfsOptions, kAzureCredentials, true, &configure_abfs},
    {"oss", kOssOptions, "ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET", true,
     &configure_oss},
    {"cos", kRegionalOptions, "TENCENTCLOUD_SECRET_ID and TENCENTCLOUD_SECRET_KEY", true,
     &configure_cos},
    {"obs", kRegionalOptions, "HUAWEI_CLOUD_ACCESS_KEY_ID and HUAWEI_CLOUD_SECRET_ACCESS_KEY", true,
     &configure_obs},
    {"b2", kB2Options, "B2_APPLICATION_KEY_ID and B2_APPLICATION_KEY", true, &configure_b2},
    {"hdfs", {}, "HADOOP_USER_NAME", false, &configure_hdfs},
    {"webhdfs", kWebhdfsOptions, "user= or HADOOP_USER_NAME, or WEBHDFS_DELEGATION_TOKEN", false,
     &configure_webhdfs},
    {"http", {}, "it is accessed without any", false, &configure_http},
    {"https", {}, "it is accessed without any", false, &configure_http},
    {"hf", kHfOptions, "HF_TOKEN, or the file that HF_TOKEN_PATH or credentials= names", true,
     &configure_hf},
    {"sftp", kSftpOptions, "the private key that key= names", false, &configure_sftp},
}};

}  // namespace

std::span<const Scheme> schemes() {
  return kSchemes;
}

const Scheme* find_scheme(std::string_view name) {
  const auto* found = std::ranges::find(kSchemes, name, &Scheme::name);
  return found == kSchemes.end() ? nullptr : &*found;
}

bool is_store_url(const std::string& argument) {
  if (argument.contains("://")) return true;
  const size_t colon = argument.find(":/");
  if (colon == std::string::npos || access(argument.c_str(), F_OK) == 0) return false;
  std::string scheme = argument.substr(0, colon);
  std::ranges::transform(scheme, scheme.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return scheme == "file" || scheme == "leat" || find_scheme(scheme) != nullptr;
}

}  // namespace leat
