// SPDX-License-Identifier: Apache-2.0
// Parses requests: bodies with normalised paths, and targets. Private to this module.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <concepts>
#include <string>
#include <utility>

#include "frontends/admin/codec.h"
#include "http/message.h"
#include "model/mount_entry.h"

namespace leat {

// `path` and `others` are the members of T that are namespace paths. Errors are kInvalidArgument.
template <class T, std::same_as<std::string T::*>... Paths>
Result<T> body_of(const HttpRequest& request, std::string T::* path, Paths... others) {
  LEAT_TRY(Json json, parse_json(request.body, "the request's body"));
  LEAT_TRY(T wanted, from_json<T>(json));
  Result<> normal;
  auto normalise = [&](std::string& text) {
    Result<std::string> made = normalise_path(text);
    if (made) {
      text = *std::move(made);
    } else if (normal) {
      normal = error(made.error());
    }
  };
  normalise(wanted.*path);
  (normalise(wanted.*others), ...);
  if (!normal) return error(normal.error());
  return wanted;
}

// Returns the `{id}` of a job route.
inline Result<uint64_t> job_number_of(const HttpRequest& request) {
  const std::string& text = request.params.at("id");
  uint64_t id = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (failed != std::errc() || end != text.data() + text.size()) {
    return error(StatusCode::kInvalidArgument, fmt::format("'{}' is not a job's number", text));
  }
  return id;
}

}  // namespace leat
