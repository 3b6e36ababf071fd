// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/request_trace.h"

#include <array>

#include "telemetry/metrics.h"
#include "telemetry/slow_log.h"

namespace leat {
namespace {

const MetricFamily kSeconds(MetricType::kHistogram, "leat_fuse_request_seconds",
                            "Duration of FUSE requests that were not answered inline", "operation");
// In the order of RequestKind.
std::array<Histogram, 8> seconds = {
    Histogram(kSeconds, R"(operation="lookup")"), Histogram(kSeconds, R"(operation="attributes")"),
    Histogram(kSeconds, R"(operation="open")"),   Histogram(kSeconds, R"(operation="read")"),
    Histogram(kSeconds, R"(operation="list")"),   Histogram(kSeconds, R"(operation="write")"),
    Histogram(kSeconds, R"(operation="save")"),   Histogram(kSeconds, R"(operation="change")")};

const char* name_of(RequestKind kind) {
  constexpr std::array kNames = {"lookup", "attributes", "open", "read",
                                 "list",   "write",      "save", "change"};
  return kNames[static_cast<size_t>(kind)];
}

bool is_traced(FileSystem& files, const RequestLabel& label) {
  return trace_registry().any_subscribed() &&
         trace_registry().is_subscribed(files.path_of(label.node, label.name));
}

}  // namespace

RequestTrace::RequestTrace(FileSystem& files, RequestLabel label)
    : files_(files),
      label_(label),
      name_(label.name),
      trace_(std::make_shared<Trace>(is_traced(files, label))) {}

void RequestTrace::finish() {
  const Clock::time_point end = Clock::now();
  const Clock::duration took = end - begin_;
  seconds[static_cast<size_t>(label_.kind)].observe(took);
  const bool slow = slow_log().is_slow(took);
  if (!slow && !trace_->detailed()) return;
  const std::string path = files_.path_of(label_.node, name_);
  const auto now = std::chrono::system_clock::now();
  std::vector<Span> spans = trace_->spans();
  if (trace_->detailed()) {
    trace_registry().record(path, {.time = now - took,
                                   .begin = begin_,
                                   .end = end,
                                   .operation = name_of(label_.kind),
                                   .offset = label_.offset,
                                   .bytes = label_.bytes,
                                   .spans = spans,
                                   .spans_lost = trace_->lost(),
                                   .failure = failure_});
  }
  if (!slow) return;
  slow_log().add({.time = now,
                  .operation = name_of(label_.kind),
                  .path = path,
                  .offset = label_.offset,
                  .bytes = label_.bytes,
                  .took = took,
                  .end = end,
                  .parts = std::move(spans),
                  .failure = failure_});
}

void InlineTrace::record(FileSystem& files, const RequestLabel& label) const {
  const Clock::time_point end = Clock::now();
  const std::string path = files.path_of(label.node, label.name);
  if (!trace_registry().is_subscribed(path)) return;
  trace_registry().record(path, {.time = std::chrono::system_clock::now() - (end - begin_),
                                 .begin = begin_,
                                 .end = end,
                                 .operation = name_of(label.kind),
                                 .offset = label.offset,
                                 .bytes = label.bytes});
}

}  // namespace leat
