// SPDX-License-Identifier: Apache-2.0
// StoreUrl: the parsed SOURCE of a mount. Examples:
//
//   s3://bucket/prefix?endpoint=http://127.0.0.1:7070&region=us-east-1&addressing=path
//   file:///data/set, /data/set.
//
// In a URL '%' and two hexadecimal digits stand for a byte, decoded once: %3F for '?', %25 for '%'.
// Any other '%' stands for itself. A path is taken literally.
//
// Options may stand in the query or come separately. A URL with credentials is rejected, since URLs
// are logged.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat {

struct StoreUrl {
  std::string scheme;  // "s3", "file"
  std::string bucket;  // empty for file
  std::string prefix;  // no leading slash; ends in '/' unless empty
  std::map<std::string, std::string> options;

  static Result<StoreUrl> parse(std::string_view text);
  // Returns the URL without options, to show to people: "s3://bucket/prefix/". Parsing it gives the
  // same StoreUrl.
  std::string to_string() const;
};

}  // namespace leat
