// SPDX-License-Identifier: Apache-2.0
// Control socket data of single requests: traces, and slow operations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/admin/codec.h"
#include "telemetry/slow_log.h"
#include "telemetry/trace_registry.h"

namespace leat {

struct SpanView {
  std::string what{};
  std::optional<uint64_t> parent{};  // index in the list; none: top level
  double begin = 0;  // seconds since the request arrived; negative for work that began before it
  std::optional<double> seconds{};  // none: not finished
  std::string note{};

  friend bool operator==(const SpanView&, const SpanView&) = default;
};

struct RequestView {
  WallTime time{};  // arrival
  std::string operation{};
  uint64_t offset = 0, bytes = 0;  // of a read
  double seconds = 0;
  std::vector<SpanView> spans{};  // empty: answered inline, from memory
  uint64_t spans_lost = 0;
  std::string failure{};

  friend bool operator==(const RequestView&, const RequestView&) = default;
};

struct TraceView {
  uint64_t id = 0;
  std::vector<RequestView> requests{};
};

struct SlowView {
  WallTime time{};  // end
  std::string operation{};
  std::string path{};
  uint64_t offset = 0, bytes = 0;
  double seconds = 0;
  std::string reason{};  // the longest waits
  std::string failure{};

  friend bool operator==(const SlowView&, const SlowView&) = default;
};

RequestView view_of(const TracedRequest& request);
SlowView view_of(const SlowOperation& operation);
Json to_json(const TraceView& view);
Json to_json(const SlowView& view);

void decode(const Json& json, TraceView& view);
void decode(const Json& json, SlowView& view);

}  // namespace leat
