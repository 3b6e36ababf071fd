// SPDX-License-Identifier: Apache-2.0
#include "model/folder_settings.h"

#include <fmt/format.h>

#include <array>

namespace leat {
namespace {

constexpr std::array<std::string_view, 5> kOptions = {"folder_profile", "no_open", "read_ahead",
                                                      "look_ahead", "next_files"};
// The kernel's own bound is larger, but bytes beyond one request only add waste.
constexpr uint64_t kReadAheadMax = 64 * kMiB;
constexpr uint64_t kReadAheadMin = 4 * kKiB;
constexpr uint64_t kLookAheadMax = 4 * kGiB;

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

}  // namespace

std::span<const std::string_view> folder_options() {
  return kOptions;
}

Result<FolderSettings> make_folder_settings(const std::map<std::string, std::string>& options) {
  FolderSettings made;
  for (const auto& [option, text] : options) {
    if (option == "no_open") LEAT_CHECK_OK(set_bool(made.no_open, option, text));
    if (option == "next_files") LEAT_CHECK_OK(set_bool(made.next_files, option, text));
    if (option == "read_ahead") {
      LEAT_CHECK_OK(set_bytes(made.read_ahead, option, text, kReadAheadMin, kReadAheadMax));
    }
    if (option == "look_ahead") {
      LEAT_CHECK_OK(set_bytes(made.look_ahead, option, text, 0, kLookAheadMax));
    }
  }
  return made;
}

}  // namespace leat
