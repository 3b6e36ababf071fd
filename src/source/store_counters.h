// SPDX-License-Identifier: Apache-2.0
// StoreCounters: bytes read from one store, and attempts that it failed. One per source that sends
// requests itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "source/source.h"
#include "telemetry/metrics.h"

namespace leat {

// Returns the labels that name a store in metrics: store, store_id.
std::string store_labels(const std::string& name, const StoreId& id);
// Returns `labels` with one more.
std::string with_label(const std::string& labels, std::string_view name, std::string_view value);

class StoreCounters {
 public:
  StoreCounters(const std::string& name, const StoreId& id);

  // Bytes that arrived, also of a read that failed later.
  void add_read(uint64_t bytes) { read_bytes_.add(bytes); }
  // Counts a failure of the store, but neither an ordinary response nor the caller's end.
  void add_failure(StatusCode code);

 private:
  Counter read_bytes_, throttled_, failed_;
};

}  // namespace leat
