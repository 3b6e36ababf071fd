// SPDX-License-Identifier: Apache-2.0
// Conversions between the shim's types (shim/leat_store.h) and ours.
#pragma once

#include <cstdint>
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

// Limits of more than 2^32 − 1 ms wrap around.
inline leat_terms as_terms(const AttemptTerms& terms) {
  return {static_cast<uint32_t>(terms.first_byte_max.count()),
          static_cast<uint32_t>(terms.silence_max.count())};
}

inline leat_text as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct FreeRequest {
  void operator()(leat_request* request) const { leat_request_free(request); }
};

}  // namespace leat
