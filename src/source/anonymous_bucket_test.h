// SPDX-License-Identifier: Apache-2.0
// anonymous_bucket(): an S3 bucket without credentials, as on the tests' own servers.
#pragma once

#include <string>

#include "source/stores/opendal_source.h"

namespace leat::testing {

inline OpendalConfig anonymous_bucket(const std::string& endpoint) {
  OpendalConfig config;
  config.scheme = "s3";
  config.bucket = "bucket";
  config.endpoint = endpoint;
  config.options = {{"region", "us-east-1"}, {"anonymous", "true"}};
  return config;
}

}  // namespace leat::testing
