// SPDX-License-Identifier: Apache-2.0
// Conversions between the shim's types (shim/leat_store.h) and ours.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "source/shim/leat_store.h"
#include "source/source.h"

namespace leat {

inline leat_text as_text(std::string_view text) {
  return {text.data(), text.size()};
}

inline std::string to_string(const leat_text& text) {
  return {text.data, text.size};
}

// A limit over 2^32 − 1 ms becomes that, 49 days.
inline uint32_t as_milliseconds(std::chrono::milliseconds limit) {
  constexpr std::chrono::milliseconds kMax(std::numeric_limits<uint32_t>::max());
  return static_cast<uint32_t>(std::min(limit, kMax).count());
}

inline leat_terms as_terms(const AttemptTimeouts& timeouts) {
  return {as_milliseconds(timeouts.first_byte_timeout), as_milliseconds(timeouts.idle_timeout)};
}

inline leat_text as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct FreeRequest {
  void operator()(leat_request* request) const { leat_request_free(request); }
};

}  // namespace leat
