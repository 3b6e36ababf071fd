// SPDX-License-Identifier: Apache-2.0
// Writes the heads of messages. Private to this module.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace leat {

struct ResponseHead {
  bool keep_alive = true;
  bool chunked = false;
  std::optional<uint64_t> content_length{};
};

std::string make_head(const HttpResponse& response, const ResponseHead& how);
// `host` is the value of the Host field if the request has none.
std::string make_head(const HttpRequest& request, std::string_view host, bool keep_alive);

// Whether responses of this status have a body at all (RFC 9110, 6.4.1).
bool has_body(int status);

}  // namespace leat
