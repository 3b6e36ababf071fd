// SPDX-License-Identifier: Apache-2.0
// Traces in the JSON of OpenTelemetry's protocol (OTLP 1.x, ExportTraceServiceRequest). Collectors
// accept it at /v1/traces, and tools read it from a file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontends/admin/trace_view.h"

namespace leat {

struct OtlpResource {
  std::string version{};  // of Leat
  std::string host{};
};

// Each request is a separate trace with one root span. `random` gives bytes for ids.
Json to_otlp(const std::string& path, const std::vector<RequestView>& requests,
             const OtlpResource& resource, const std::function<uint64_t()>& random);

}  // namespace leat
