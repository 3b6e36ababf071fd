// SPDX-License-Identifier: Apache-2.0
// The console's page: the files of web/ as they were bundled when Leat was built. They hold no
// data.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "http/message.h"

namespace leat {

struct PageFile {
  const char* path;  // "/console.js"
  const char* type;  // Content-Type
  std::span<const unsigned char> plain;
  std::span<const unsigned char> gzip;  // the same, compressed
};

std::span<const PageFile> page_files();

// The answer to GET or HEAD of one of them: 200 or, for what the browser has already, 304. Empty
// where there is no such file.
std::optional<HttpResponse> page_response(const HttpRequest& request);

// What every answer of the console says to the browser: nothing from elsewhere, no frames, no
// referrer, no guessed types.
void set_page_headers(HttpResponse& response);

}  // namespace leat
