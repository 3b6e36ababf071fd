// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/trace/otlp.h"

#include <fmt/format.h>

namespace leat {
namespace {

// SpanKind and StatusCode of opentelemetry/proto/trace/v1/trace.proto.
constexpr int kKindInternal = 1, kKindServer = 2;
constexpr int kStatusError = 2;

Json text_attribute(const char* key, const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}

// 64-bit numbers are strings in the JSON of protocol buffers.
Json number_attribute(const char* key, uint64_t value) {
  return {{"key", key}, {"value", {{"intValue", std::to_string(value)}}}};
}

std::string nanoseconds(WallTime begin, double seconds) {
  const auto offset =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  return std::to_string((begin + offset).time_since_epoch().count());
}

struct Ids {
  const std::function<uint64_t()>& random;

  // Neither id may be all zeros.
  std::string trace() const { return fmt::format("{:016x}{:016x}", random() | 1, random()); }
  std::string span() const { return fmt::format("{:016x}", random() | 1); }
};

Json root_span(const std::string& path, const RequestView& request, const std::string& trace,
               const std::string& id) {
  Json attributes = Json::array({text_attribute("file.path", path)});
  if (request.operation == "read") {
    attributes.push_back(number_attribute("leat.offset", request.offset));
    attributes.push_back(number_attribute("leat.bytes", request.bytes));
  }
  Json span = {{"traceId", trace},
               {"spanId", id},
               {"name", request.operation},
               {"kind", kKindServer},
               {"startTimeUnixNano", nanoseconds(request.time, 0)},
               {"endTimeUnixNano", nanoseconds(request.time, request.seconds)},
               {"attributes", attributes}};
  if (!request.failure.empty()) {
    span["status"] = {{"code", kStatusError}, {"message", request.failure}};
  }
  return span;
}

void add_spans(const std::string& path, const RequestView& request, const Ids& ids, Json& all) {
  const std::string trace = ids.trace(), root = ids.span();
  all.push_back(root_span(path, request, trace, root));
  std::vector<std::string> names;
  for (const SpanView& view : request.spans) {
    const bool has_parent = view.parent && *view.parent < names.size();
    names.push_back(ids.span());
    Json span = {
        {"traceId", trace},
        {"spanId", names.back()},
        {"parentSpanId", has_parent ? names[*view.parent] : root},
        {"name", view.what},
        {"kind", kKindInternal},
        {"startTimeUnixNano", nanoseconds(request.time, view.begin)},
        // A span without an end ends with the request.
        {"endTimeUnixNano",
         nanoseconds(request.time, view.seconds ? view.begin + *view.seconds : request.seconds)}};
    if (!view.note.empty())
      span["attributes"] = Json::array({text_attribute("leat.note", view.note)});
    all.push_back(std::move(span));
  }
}

}  // namespace

Json to_otlp(const std::string& path, const std::vector<RequestView>& requests,
             const OtlpResource& resource, const std::function<uint64_t()>& random) {
  Json spans = Json::array();
  for (const RequestView& request : requests) add_spans(path, request, Ids{random}, spans);
  const Json attributes = {text_attribute("service.name", "leat"),
                           text_attribute("service.version", resource.version),
                           text_attribute("host.name", resource.host)};
  Json scope = {{"scope", {{"name", "leat"}, {"version", resource.version}}}, {"spans", spans}};
  Json all = {{"resource", {{"attributes", attributes}}}, {"scopeSpans", Json::array({scope})}};
  return {{"resourceSpans", Json::array({all})}};
}

}  // namespace leat
