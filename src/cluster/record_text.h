// SPDX-License-Identifier: Apache-2.0
// Reads a registry record: JSON with a version, `v`. A version above this program's is an error.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/status.h"
#include "cluster/cluster_records.h"

namespace leat {

// Returns the result of `read` for the JSON object in `text`. Catches nlohmann's exceptions for
// missing members and wrong types.
template <class T, class Read>
Result<T> read_record(std::string_view text, const char* what, Read read) {
  try {
    const auto json = nlohmann::json::parse(text);
    if (const int version = json.value("v", kRecordVersion); version > kRecordVersion) {
      return error(StatusCode::kUnsupported,
                   fmt::format("{} is of version {}, this program knows {}; upgrade it", what,
                               version, kRecordVersion));
    }
    return read(json);
  } catch (const nlohmann::json::exception& failed) {
    return error(StatusCode::kCorrupt, fmt::format("{} cannot be read: {}", what, failed.what()));
  }
}

}  // namespace leat
