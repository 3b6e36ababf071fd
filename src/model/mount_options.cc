// SPDX-License-Identifier: Apache-2.0
#include "model/mount_options.h"

#include <fmt/format.h>

#include <array>

namespace leat {
namespace {

constexpr std::array<std::string_view, 7> kOptions = {
    "folder_profile",      "no_open", "kernel_readahead", "prefetch_window",
    "prefetch_next_files", "load",    "writable"};
// The kernel's own bound is larger, but bytes beyond one request only add waste.
constexpr uint64_t kKernelReadaheadMax = 64 * kMiB;
constexpr uint64_t kKernelReadaheadMin = 4 * kKiB;
constexpr uint64_t kPrefetchWindowMax = 4 * kGiB;

Result<> set_bool(bool& value, const std::string& option, const std::string& text) {
  if (text != "true" && text != "false") {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("option {}={} must be 'true' or 'false'", option, text));
  }
  value = text == "true";
  return {};
}

Result<> set_bytes(uint64_t& value, const std::string& option, const std::string& text,
                   uint64_t min, uint64_t max) {
  Result<uint64_t> bytes = parse_bytes(text);
  if (!bytes) return error(bytes.error().with_context("option " + option));
  if (*bytes < min || *bytes > max) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("option {}={} must be from {} to {}", option, text, format_bytes(min),
                             format_bytes(max)));
  }
  value = *bytes;
  return {};
}

Result<> set_load(MountLoad& value, const std::string& text) {
  if (text == "auto") {
    value = MountLoad::kAuto;
  } else if (text == "never") {
    value = MountLoad::kNever;
  } else if (text == "on-mount") {
    value = MountLoad::kOnMount;
  } else {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("option load={} must be 'auto', 'never' or 'on-mount'", text));
  }
  return {};
}

}  // namespace

std::span<const std::string_view> mount_option_names() {
  return kOptions;
}

Result<MountOptions> parse_mount_options(const std::map<std::string, std::string>& options) {
  MountOptions parsed;
  for (const auto& [option, text] : options) {
    if (option == "no_open") LEAT_CHECK_OK(set_bool(parsed.no_open, option, text));
    if (option == "prefetch_next_files")
      LEAT_CHECK_OK(set_bool(parsed.prefetch_next_files, option, text));
    if (option == "load") LEAT_CHECK_OK(set_load(parsed.load, text));
    if (option == "writable") LEAT_CHECK_OK(set_bool(parsed.writable, option, text));
    if (option == "kernel_readahead") {
      LEAT_CHECK_OK(set_bytes(parsed.kernel_readahead, option, text, kKernelReadaheadMin,
                              kKernelReadaheadMax));
    }
    if (option == "prefetch_window") {
      LEAT_CHECK_OK(set_bytes(parsed.prefetch_window, option, text, 0, kPrefetchWindowMax));
    }
  }
  return parsed;
}

}  // namespace leat
