// SPDX-License-Identifier: Apache-2.0
#include "peer/copy_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/mount_entry.h"
#include "peer/flat_json.h"
#include "peer/read_request.h"
#include "peer/wire_text.h"

namespace leat {
namespace {

template <class T>
struct Named {
  T value;
  std::string_view name;
};
constexpr std::array<Named<CopyOver>, 3> kOvers = {
    {{CopyOver::kNothing, "nothing"}, {CopyOver::kOther, "other"}, {CopyOver::kAll, "all"}}};
constexpr std::array<Named<CopyState>, 3> kStates = {
    {{CopyState::kMore, "more"}, {CopyState::kWritten, "written"}, {CopyState::kThere, "there"}}};

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
  return wrong(fmt::format("'{}' is nothing that a copy can be", name));
}

class GoalSink : public FlatJsonSink {
 public:
  Result<> member(std::string_view name, const FlatJsonValue& value) override {
    if (name == "copy") return value.get(name, copy);
    if (name == "to") return value.get(name, goal.to);
    if (name == "key") return value.get(name, goal.key);
    if (name == "over") return value.get(name, over);
    if (name == "offset") return value.get(name, range.offset);
    if (name == "bytes") return value.get(name, range.size);
    if (name == "mtime_ns") {
      int64_t since = 0;
      LEAT_CHECK_OK(value.get(name, since));
      goal.mtime = WallTime(std::chrono::nanoseconds(since));
    }
    if (name == "alone") {
      uint64_t alone = 0;
      LEAT_CHECK_OK(value.get(name, alone));
      goal.alone = alone != 0;
    }
    return {};
  }

  CopyGoal goal;
  ByteRange range;
  std::string copy, over;
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

std::string_view to_string(CopyOver over) {
  return name_in(kOvers, over);
}

Result<CopyOver> parse_copy_over(std::string_view text) {
  return value_in(kOvers, text);
}

std::string encode_copy_goal(const CopyGoal& goal, ByteRange range) {
  FlatJsonWriter writer;
  writer.text("copy", goal.copy.to_hex());
  writer.bytes("to", goal.to);
  if (!goal.key.empty()) writer.bytes("key", goal.key);
  if (goal.mtime) writer.number("mtime_ns", int64_t{goal.mtime->time_since_epoch().count()});
  writer.text("over", to_string(goal.over));
  if (goal.alone) writer.number("alone", 1U);
  writer.number("offset", range.offset);
  writer.number("bytes", range.size);
  return writer.take();
}

Result<CopyGoal> decode_copy_goal(std::string_view text, ByteRange* range) {
  GoalSink sink;
  LEAT_CHECK_OK(read_flat_json(text, "a file's copy", "", sink));
  const auto copy = Id128::from_hex(sink.copy);
  if (!copy) return wrong(fmt::format("'{}' is no copy's id", sink.copy));
  sink.goal.copy = *copy;
  LEAT_TRY(sink.goal.over, parse_copy_over(sink.over));
  if (sink.goal.to.starts_with('/')) {
    LEAT_CHECK_OK(check_mount(sink.goal.to));
  } else if (sink.goal.to.empty()) {
    return wrong("a copy does not say where to");
  }
  if (!sink.goal.key.empty()) LEAT_CHECK_OK(check_key(sink.goal.key, false));
  *range = sink.range;
  return std::move(sink.goal);
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
  HttpRequest http = to_descriptor_request(
      {.mount = request.mount, .file = request.file, .range = request.range, .terms = {}});
  http.method = "POST";
  http.path = kCopyPath;
  http.body = encode_copy_goal(request.goal, request.range);
  return http;
}

Result<CopyStepRequest> copy_request_from(const HttpRequest& http) {
  LEAT_TRY(PeerReadRequest from, descriptor_request_from(http));
  ByteRange range;
  LEAT_TRY(CopyGoal goal, decode_copy_goal(http.body, &range));
  if (from.file.size != 0 || !range.empty() || range.offset != 0) {
    LEAT_CHECK_OK(check_range(range, from.file.size));
  }
  return CopyStepRequest{std::move(from.mount), std::move(from.file), range, std::move(goal)};
}

}  // namespace leat
