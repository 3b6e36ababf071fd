// SPDX-License-Identifier: Apache-2.0
// RequestTrace: a request of the kernel as people look at it: how long it took (a histogram), what
// it waited for where that was long (telemetry/slow_log.h) or where somebody asked for a trace of
// its path (telemetry/trace_desk.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/context.h"
#include "telemetry/trace.h"
#include "telemetry/trace_desk.h"
#include "vfs/file_system.h"

namespace leat {

enum class RequestKind : uint8_t { kLookup, kAttributes, kOpen, kRead, kList };

struct RequestLabel {
  RequestKind kind;
  NodeId node = 0;
  std::string_view name{};         // of a look-up: in `node`; is copied where it is kept
  uint64_t offset = 0, bytes = 0;  // of a read
};

// One that waits.
class RequestTrace {
 public:
  RequestTrace(FileSystem& files, RequestLabel label);

  const std::shared_ptr<Trace>& trace() const { return trace_; }
  void failed(const Status& status) { failure_ = status.to_string(); }
  // Just before it is answered.
  void ended();

 private:
  FileSystem& files_;
  const RequestLabel label_;
  const std::string name_;  // what label_.name shows
  const Clock::time_point begin_ = Clock::now();
  const std::shared_ptr<Trace> trace_;
  std::string failure_;
};

// One that may be answered in place: made first, and of interest to those who asked for traces
// alone.
class PlaceTrace {
 public:
  PlaceTrace() : begin_(trace_desk().watching() ? Clock::now() : Clock::time_point()) {}
  void answered(FileSystem& files, const RequestLabel& label) const {
    if (begin_ != Clock::time_point()) hand_in(files, label);
  }

 private:
  void hand_in(FileSystem& files, const RequestLabel& label) const;

  const Clock::time_point begin_;
};

}  // namespace leat
