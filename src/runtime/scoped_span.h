// SPDX-License-Identifier: Apache-2.0
// ScopedSpan: an RAII span. Calls with the same Context become its children meanwhile. No effect if
// the context carries no trace.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/context.h"
#include "telemetry/trace.h"

namespace leat {

class ScopedSpan {
 public:
  // `context` outlives this. `what` has static lifetime.
  ScopedSpan(Context& context, const char* what) : context_(context), trace_(context.trace) {
    if (trace_ == nullptr) return;
    before_ = context.span;
    span_ = context.span = trace_->begin(before_, what);
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ~ScopedSpan() {
    if (trace_ == nullptr) return;
    trace_->end(span_);
    context_.span = before_;
  }

  // Calls `text()` only if the trace is detailed.
  template <class Text>
  void note(const Text& text) {
    if (trace_ != nullptr && trace_->detailed()) trace_->note(span_, text());
  }
  void failed(const Status& status) {
    if (trace_ != nullptr) trace_->note(span_, status.to_string());
  }
  // Adds a child span that has ended.
  void part(const char* what, Clock::time_point begin, Clock::time_point end) {
    if (trace_ != nullptr) trace_->add(span_, what, begin, end);
  }
  // Adds the spans of work that is shared with other requests.
  void adopt(const std::shared_ptr<Trace>& other) {
    if (trace_ != nullptr && other != nullptr) trace_->adopt(*other, span_);
  }

 private:
  Context& context_;
  const std::shared_ptr<Trace> trace_;
  uint32_t span_ = 0, before_ = 0;
};

}  // namespace leat
