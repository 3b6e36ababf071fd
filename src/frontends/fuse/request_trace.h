// SPDX-License-Identifier: Apache-2.0
// RequestTrace: measures a kernel request: its duration (a histogram), and its waits if it was slow
// (telemetry/slow_log.h) or if its path is traced (telemetry/trace_registry.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/context.h"
#include "telemetry/trace.h"
#include "telemetry/trace_registry.h"
#include "vfs/file_system.h"

namespace leat {

enum class RequestKind : uint8_t {
  kLookup,
  kAttributes,
  kOpen,
  kRead,
  kList,
  kWrite,
  kSave,
  kChange
};

struct RequestLabel {
  RequestKind kind;
  NodeId node = 0;
  std::string_view name{};         // of a lookup: in `node`; copied if it is stored
  uint64_t offset = 0, bytes = 0;  // of a read
};

// Trace of a request that waits.
class RequestTrace {
 public:
  RequestTrace(FileSystem& files, RequestLabel label);

  const std::shared_ptr<Trace>& trace() const { return trace_; }
  void set_failure(const Status& status) { failure_ = status.to_string(); }
  // Call just before the answer.
  void finish();

 private:
  FileSystem& files_;
  const RequestLabel label_;
  const std::string name_;  // storage of label_.name
  const Clock::time_point begin_ = Clock::now();
  const std::shared_ptr<Trace> trace_;
  std::string failure_;
};

// Trace of a request that may be answered inline. Create it first; only path traces use it.
class InlineTrace {
 public:
  InlineTrace() : begin_(trace_registry().any_subscribed() ? Clock::now() : Clock::time_point()) {}
  void finish(FileSystem& files, const RequestLabel& label) const {
    if (begin_ != Clock::time_point()) record(files, label);
  }

 private:
  void record(FileSystem& files, const RequestLabel& label) const;

  const Clock::time_point begin_;
};

}  // namespace leat
