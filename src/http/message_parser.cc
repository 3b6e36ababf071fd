// SPDX-License-Identifier: Apache-2.0
#include "http/message_parser.h"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/status.hpp>

namespace leat {

void ResponseParser::trailer(std::string_view name, std::string_view value) {
  if (boost::beast::iequals(name, "leat-error")) failure_ = std::string(value);
}

std::string_view reason_phrase(int status) {
  namespace http = boost::beast::http;
  return http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
}

}  // namespace leat
