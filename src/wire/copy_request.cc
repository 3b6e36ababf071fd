// SPDX-License-Identifier: Apache-2.0
#include "wire/copy_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/mount_entry.h"
#include "wire/flat_json.h"
#include "wire/read_request.h"
#include "wire/wire_text.h"

namespace leat {
namespace {

template <class T>
struct Named {
  T value;
  std::string_view name;
};
constexpr std::array<Named<OverwriteMode>, 3> kOverwriteModes = {
    {{OverwriteMode::kNever, "never"},
     {OverwriteMode::kIfDifferent, "if-different"},
     {OverwriteMode::kAlways, "always"}}};
constexpr std::array<Named<CopyState>, 3> kStates = {{{CopyState::kMore, "more"},
                                                      {CopyState::kWritten, "written"},
                                                      {CopyState::kAlreadyPresent, "present"}}};

Error wrong(std::string reason) {
  return error(StatusCode::kInvalidArgument, std::move(reason));
}

template <class T, size_t N>
std::string_view name_in(const std::array<Named<T>, N>& all, T value) {
  return std::ranges::find(all, value, &Named<T>::value)->name;
}

template <class T, size_t N>
Result<T> value_in(const std::array<Named<T>, N>& all, std::string_view name) {
  const auto* found = std::ranges::find(all, name, &Named<T>::name);
  if (found != all.end()) return found->value;
  return wrong(fmt::format("'{}' is no mode or state of a copy", name));
}

class SpecSink : public FlatJsonSink {
 public:
  Result<> member(std::string_view name, const FlatJsonValue& value) override {
    if (name == "copy") return value.get(name, copy);
    if (name == "to") return value.get(name, spec.to);
    if (name == "key") return value.get(name, spec.key);
    if (name == "overwrite") return value.get(name, overwrite);
    if (name == "offset") return value.get(name, range.offset);
    if (name == "bytes") return value.get(name, range.size);
    if (name == "mtime_ns") {
      int64_t since = 0;
      LEAT_CHECK_OK(value.get(name, since));
      spec.mtime = WallTime(std::chrono::nanoseconds(since));
    }
    if (name == "alone") {
      uint64_t name_is_guess = 0;
      LEAT_CHECK_OK(value.get(name, name_is_guess));
      spec.name_is_guess = name_is_guess != 0;
    }
    return {};
  }

  CopySpec spec;
  ByteRange range;
  std::string copy, overwrite;
};

class StepSink : public FlatJsonSink {
 public:
  Result<> member(std::string_view name, const FlatJsonValue& value) override {
    if (name == "state") return value.get(name, state);
    if (name == "bytes") return value.get(name, step.bytes);
    return {};
  }

  CopyStep step;
  std::string state;
};

}  // namespace

std::string_view to_string(OverwriteMode mode) {
  return name_in(kOverwriteModes, mode);
}

Result<OverwriteMode> parse_overwrite_mode(std::string_view text) {
  return value_in(kOverwriteModes, text);
}

std::string encode_copy_spec(const CopySpec& spec, ByteRange range) {
  FlatJsonWriter writer;
  writer.text("copy", spec.copy.to_hex());
  writer.bytes("to", spec.to);
  if (!spec.key.empty()) writer.bytes("key", spec.key);
  if (spec.mtime) writer.number("mtime_ns", int64_t{spec.mtime->time_since_epoch().count()});
  writer.text("overwrite", to_string(spec.overwrite));
  if (spec.name_is_guess) writer.number("alone", 1U);
  writer.number("offset", range.offset);
  writer.number("bytes", range.size);
  return writer.take();
}

Result<CopySpec> decode_copy_spec(std::string_view text, ByteRange* range) {
  SpecSink sink;
  LEAT_CHECK_OK(read_flat_json(text, "a file's copy", "", sink));
  const auto copy = Id128::from_hex(sink.copy);
  if (!copy) return wrong(fmt::format("'{}' is no copy's id", sink.copy));
  sink.spec.copy = *copy;
  LEAT_TRY(sink.spec.overwrite, parse_overwrite_mode(sink.overwrite));
  if (sink.spec.to.starts_with('/')) {
    LEAT_CHECK_OK(check_mount(sink.spec.to));
  } else if (sink.spec.to.empty()) {
    return wrong("the copy has no destination");
  }
  if (!sink.spec.key.empty()) LEAT_CHECK_OK(check_key(sink.spec.key, false));
  *range = sink.range;
  return std::move(sink.spec);
}

std::string encode_copy_step(const CopyStep& step) {
  FlatJsonWriter writer;
  writer.text("state", name_in(kStates, step.state));
  writer.number("bytes", step.bytes);
  return writer.take();
}

Result<CopyStep> decode_copy_step(std::string_view text) {
  StepSink sink;
  LEAT_CHECK_OK(read_flat_json(text, "a step of a copy", "", sink));
  LEAT_TRY(sink.step.state, value_in(kStates, sink.state));
  return sink.step;
}

HttpRequest to_http(const CopyStepRequest& request) {
  HttpRequest http = to_fd_request(
      {.mount = request.mount, .file = request.file, .range = request.range, .header = {}});
  http.method = "POST";
  http.path = kCopyPath;
  http.body = encode_copy_spec(request.spec, request.range);
  return http;
}

Result<CopyStepRequest> copy_request_from(const HttpRequest& http) {
  LEAT_TRY(PeerReadRequest from, fd_request_from(http));
  ByteRange range;
  LEAT_TRY(CopySpec spec, decode_copy_spec(http.body, &range));
  if (from.file.size != 0 || !range.empty() || range.offset != 0) {
    LEAT_CHECK_OK(check_range(range, from.file.size));
  }
  return CopyStepRequest{std::move(from.mount), std::move(from.file), range, std::move(spec)};
}

}  // namespace leat
