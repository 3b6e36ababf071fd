// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "source/file_source.h"
#include "source/opendal_source.h"
#include "source/schemes.h"
#include "source/source.h"
#include "source/url_options.h"

namespace leat {

Result<SourcePtr> open_source(const StoreUrl& url, std::string_view salt) {
  if (url.scheme == "file") {
    LEAT_CHECK_OK(check_options(url, {}, ""));
    return std::make_shared<FileSource>(salt);
  }
  const Scheme* scheme = find_scheme(url.scheme);
  if (scheme == nullptr) {
    std::vector<std::string_view> names = {"file"};
    for (const Scheme& known : schemes()) names.push_back(known.name);
    return error(StatusCode::kInvalidArgument,
                 fmt::format("source {}: '{}' is not a known scheme; there are {}", url.to_string(),
                             url.scheme, fmt::join(names, ", ")));
  }
  LEAT_CHECK_OK(check_options(url, scheme->options, scheme->credentials));
  LEAT_TRY(OpendalConfig config, scheme->configure(url));
  config.credentials = scheme->credentials;
  return OpendalSource::open(std::move(config), salt);
}

}  // namespace leat
