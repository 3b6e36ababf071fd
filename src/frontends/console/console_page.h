// SPDX-License-Identifier: Apache-2.0
// The console's page: the files of web/, bundled when Leat was built. They hold no data.
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

// Answers GET or HEAD of a page file: 200, or 304 if the browser has it. Returns nothing if there
// is no such file.
std::optional<HttpResponse> page_response(const HttpRequest& request);

// Sets the security headers of every console answer: no foreign content, no frames, no referrer, no
// type sniffing.
void set_page_headers(HttpResponse& response);

}  // namespace leat
