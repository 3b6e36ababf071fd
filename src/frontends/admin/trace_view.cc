// SPDX-License-Identifier: Apache-2.0
#include "frontends/admin/trace_view.h"

#include "http/json_fields.h"

namespace leat {
namespace {

double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Whole nanoseconds, as WallTime has.
WallTime wall(std::chrono::system_clock::time_point time) {
  return std::chrono::time_point_cast<std::chrono::nanoseconds>(time);
}

Json to_json(const SpanView& span) {
  Json json = {{"what", span.what}, {"begin_seconds", span.begin}};
  if (span.parent) json["parent"] = *span.parent;
  if (span.seconds) json["seconds"] = *span.seconds;
  if (!span.note.empty()) put_bytes(json, "note", span.note);
  return json;
}

Json to_json(const RequestView& request) {
  Json json = {{"time", format_time(request.time)},
               {"operation", request.operation},
               {"seconds", request.seconds},
               {"spans", Json::array()},
               {"spans_lost", request.spans_lost}};
  if (request.operation == "read") {
    json["offset"] = request.offset;
    json["bytes"] = request.bytes;
  }
  for (const SpanView& span : request.spans) json["spans"].push_back(to_json(span));
  if (!request.failure.empty()) put_bytes(json, "failure", request.failure);
  return json;
}

void decode(const Json& json, WallTime& time) {
  if (Result<WallTime> parsed = parse_time(json.get<std::string>())) time = *parsed;
}

SpanView decode_span(const Json& json) {
  SpanView span;
  get(json, "what", span.what);
  get(json, "begin_seconds", span.begin);
  if (json.contains("parent")) span.parent = json.at("parent").get<uint64_t>();
  if (json.contains("seconds")) span.seconds = json.at("seconds").get<double>();
  get_bytes(json, "note", span.note);
  return span;
}

RequestView decode_request(const Json& json) {
  RequestView request;
  decode(json.at("time"), request.time);
  get(json, "operation", request.operation);
  get(json, "offset", request.offset);
  get(json, "bytes", request.bytes);
  get(json, "seconds", request.seconds);
  for (const Json& span : json.at("spans")) request.spans.push_back(decode_span(span));
  get(json, "spans_lost", request.spans_lost);
  get_bytes(json, "failure", request.failure);
  return request;
}

}  // namespace

RequestView view_of(const TracedRequest& request) {
  RequestView view{.time = wall(request.time),
                   .operation = request.operation,
                   .offset = request.offset,
                   .bytes = request.bytes,
                   .seconds = in_seconds(request.end - request.begin),
                   .spans_lost = request.spans_lost,
                   .failure = request.failure};
  for (const Span& span : request.spans) {
    SpanView one{
        .what = span.what, .begin = in_seconds(span.begin - request.begin), .note = span.note};
    if (span.parent != Span::kTop) one.parent = span.parent;
    if (span.ended()) one.seconds = in_seconds(span.end - span.begin);
    view.spans.push_back(std::move(one));
  }
  return view;
}

SlowView view_of(const SlowOperation& operation) {
  return {.time = wall(operation.time),
          .operation = operation.operation,
          .path = operation.path,
          .offset = operation.offset,
          .bytes = operation.bytes,
          .seconds = in_seconds(operation.took),
          .reason = operation.reason(),
          .failure = operation.failure};
}

Json to_json(const TraceView& view) {
  Json json = {{"id", view.id}, {"requests", Json::array()}};
  for (const RequestView& request : view.requests) json["requests"].push_back(to_json(request));
  return json;
}

Json to_json(const SlowView& view) {
  Json json = {{"time", format_time(view.time)},
               {"operation", view.operation},
               {"seconds", view.seconds},
               {"reason", view.reason}};
  put_bytes(json, "path", view.path);
  if (view.operation == "read") {
    json["offset"] = view.offset;
    json["bytes"] = view.bytes;
  }
  if (!view.failure.empty()) put_bytes(json, "failure", view.failure);
  return json;
}

void decode(const Json& json, TraceView& view) {
  get(json, "id", view.id);
  if (!json.contains("requests")) return;
  for (const Json& request : json.at("requests")) view.requests.push_back(decode_request(request));
}

void decode(const Json& json, SlowView& view) {
  decode(json.at("time"), view.time);
  get(json, "operation", view.operation);
  get_bytes(json, "path", view.path);
  get(json, "offset", view.offset);
  get(json, "bytes", view.bytes);
  get(json, "seconds", view.seconds);
  get(json, "reason", view.reason);
  get_bytes(json, "failure", view.failure);
}

}  // namespace leat
