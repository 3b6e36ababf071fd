// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string>
#include <vector>

#include "config/nearest.h"
#include "model/mount_options.h"
#include "model/policy_settings.h"
#include "source/file/file_source.h"
#include "source/io_timeout.h"
#include "source/retry/retrying_source.h"
#include "source/source.h"
#include "source/stores/opendal_source.h"
#include "source/stores/schemes.h"
#include "source/stores/url_options.h"
#include "source/stores/version_forms_source.h"

namespace leat {
namespace {

// Options of every store behind a network: ceilings of this mount.
constexpr std::array<std::string_view, 2> kLimitOptions = {"bandwidth", "requests_per_second"};

Result<RetryOptions> retry_options(const StoreUrl& url) {
  RetryOptions options;
  LEAT_TRY(options.io_timeout, io_timeout_of(url));
  if (std::string text = option_or_environment(url, "bandwidth", {}, ""); !text.empty()) {
    LEAT_TRY(options.pacer.bytes_per_second, parse_bytes(text));
  }
  std::string text = option_or_environment(url, "requests_per_second", {}, "");
  if (text.empty()) return options;
  double& rate = options.pacer.requests_per_second;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, rate).ptr != end || !(rate > 0)) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("option requests_per_second={} is not a number above 0", text));
  }
  return options;
}

// Names of these stores in other tools.
constexpr std::array<std::array<std::string_view, 2>, 8> kOtherNames = {{{"s3a", "s3"},
                                                                         {"s3n", "s3"},
                                                                         {"gcs", "gs"},
                                                                         {"abfss", "abfs"},
                                                                         {"wasb", "az"},
                                                                         {"wasbs", "az"},
                                                                         {"adl", "abfs"},
                                                                         {"cosn", "cos"}}};

// Returns "; did you mean 's3://bucket/prefix/'?", or an empty text.
std::string near(const StoreUrl& url, std::span<const std::string_view> names) {
  std::string_view meant;
  for (const auto& [name, ours] : kOtherNames) {
    if (name == url.scheme) meant = ours;
  }
  if (meant.empty() && url.scheme.size() > 2) {
    const auto distance = [&](std::string_view name) { return edit_distance(url.scheme, name); };
    const std::string_view nearest = std::ranges::min(names, {}, distance);
    if (distance(nearest) == 1) meant = nearest;
  }
  if (meant.empty()) return "";
  StoreUrl corrected = url;
  corrected.scheme = meant;
  return fmt::format("; did you mean '{}'?", corrected.to_string());
}

std::vector<std::string_view> mount_options() {
  std::vector<std::string_view> options(policy_options().begin(), policy_options().end());
  options.insert(options.end(), mount_option_names().begin(), mount_option_names().end());
  options.push_back(kIoTimeoutOption);
  return options;
}

}  // namespace

Result<SourcePtr> open_source(const StoreUrl& url, std::string_view salt) {
  if (url.scheme == "file") {
    LEAT_CHECK_OK(check_options(url, mount_options(), "the file system's own permissions"));
    LEAT_TRY(const Clock::duration io_timeout, io_timeout_of(url));
    LEAT_TRY(const MountOptions options, parse_mount_options(url.options));
    // Programs that write expect links and special files as they are.
    const FileAccess access = options.writable ? FileAccess::kExact : FileAccess::kByFileSystem;
    return std::make_shared<FileSource>(salt, FileSource::kPageEntries, access, io_timeout,
                                        url.prefix);
  }
  const Scheme* scheme = find_scheme(url.scheme);
  if (scheme == nullptr) {
    std::vector<std::string_view> names = {"file"};
    for (const Scheme& known : schemes()) names.push_back(known.name);
    return error(
        StatusCode::kInvalidArgument,
        fmt::format("source {}: '{}' is not a known scheme{}; there are {}", url.to_string(),
                    url.scheme, near(url, names), fmt::join(names, ", ")));
  }
  std::vector<std::string_view> known(scheme->options.begin(), scheme->options.end());
  // Options of every store: they belong to the mount, not the source, which several mounts may
  // share.
  const std::vector<std::string_view> mounts = mount_options();
  known.insert(known.end(), mounts.begin(), mounts.end());
  known.insert(known.end(), kLimitOptions.begin(), kLimitOptions.end());
  LEAT_CHECK_OK(check_options(url, known, scheme->credentials));
  LEAT_TRY(OpendalConfig config, scheme->configure(url));
  config.credentials = scheme->credentials;
  LEAT_TRY(RetryOptions retry, retry_options(url));
  LEAT_TRY(auto store, OpendalSource::open(std::move(config), salt));
  const bool has_two_forms = store->lists_etags();
  SourcePtr source = RetryingSource::make(std::move(store), std::move(retry));
  if (has_two_forms) source = std::make_shared<VersionFormsSource>(std::move(source));
  return source;
}

}  // namespace leat
