// SPDX-License-Identifier: Apache-2.0
// StoreUrl: the SOURCE of a mount as people write it, taken apart.
//
//   s3://bucket/prefix?endpoint=http://127.0.0.1:7070&region=us-east-1&addressing=path
//   file:///data/set, /data/set
//
// In a URL '%' and two hexadecimal digits stand for a byte, decoded once: %3F for '?', %25 for '%'.
// Any other '%' stands for itself. A path is taken literally.
//
// Options may stand in the query or be given beside it. Credentials never stand in a URL: one with
// user information in it is refused, since URLs are logged.
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
  // Without options; what is shown to people: "s3://bucket/prefix/". Parsed, it gives the same.
  std::string to_string() const;
};

}  // namespace leat
