// SPDX-License-Identifier: Apache-2.0
#include "frontends/console/console_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

// Generated with the bundle; the include lets a compiler cache notice a changed bundle.
#include <console_bundle.h>

namespace leat {
namespace {

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc23-extensions"
// clang-format off
constexpr unsigned char kHtml[] = {
#embed "index.html"
};
constexpr unsigned char kHtmlGzip[] = {
#embed "index.html.gz"
};
constexpr unsigned char kScript[] = {
#embed "console.js"
};
constexpr unsigned char kScriptGzip[] = {
#embed "console.js.gz"
};
constexpr unsigned char kStyle[] = {
#embed "console.css"
};
constexpr unsigned char kStyleGzip[] = {
#embed "console.css.gz"
};
constexpr unsigned char kIcon[] = {
#embed "icon.svg"
};
constexpr unsigned char kIconGzip[] = {
#embed "icon.svg.gz"
};
// clang-format on
#pragma clang diagnostic pop

constexpr std::array kFiles = {
    PageFile{"/", "text/html; charset=utf-8", kHtml, kHtmlGzip},
    PageFile{"/console.js", "text/javascript; charset=utf-8", kScript, kScriptGzip},
    PageFile{"/console.css", "text/css; charset=utf-8", kStyle, kStyleGzip},
    PageFile{"/icon.svg", "image/svg+xml", kIcon, kIconGzip},
};

// Scripts set the styles of charts and bars property by property, which is no inline style.
constexpr const char* kPolicy =
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// Calls `each` with the parts of a comma-separated list until it returns true.
template <class F>
bool any_part(std::string_view list, F each) {
  while (!list.empty()) {
    const std::string_view part = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), part.size() + 1));
    if (each(trimmed(part))) return true;
  }
  return false;
}

// "gzip;q=0" is the only form that names gzip and refuses it.
bool takes_gzip(const HttpRequest& request) {
  return any_part(request.headers.find("Accept-Encoding").value_or(""), [](std::string_view part) {
    if (!part.starts_with("gzip")) return false;
    part = trimmed(part.substr(4));
    if (part.empty()) return true;
    const size_t value = part.find("q=");
    if (!part.starts_with(';') || value == std::string_view::npos) return false;
    return part.find_first_of("123456789", value) != std::string_view::npos;
  });
}

bool has_it(const HttpRequest& request, std::string_view tag) {
  return any_part(request.headers.find("If-None-Match").value_or(""), [&](std::string_view part) {
    if (part.starts_with("W/")) part.remove_prefix(2);
    return part == tag || part == "*";
  });
}

}  // namespace

std::span<const PageFile> page_files() {
  return kFiles;
}

std::optional<HttpResponse> page_response(const HttpRequest& request) {
  auto file = std::ranges::find(kFiles, request.path, &PageFile::path);
  if (file == kFiles.end()) return std::nullopt;
  const bool gzip = takes_gzip(request);
  const std::string tag = fmt::format("\"{}{}\"", LEAT_CONSOLE_BUNDLE, gzip ? "-gzip" : "");
  HttpResponse response;
  response.headers.set("ETag", tag);
  // Revalidated each time, because an upgrade changes the page; the answer is mostly 304.
  response.headers.set("Cache-Control", "no-cache");
  response.headers.set("Vary", "Accept-Encoding");
  if (has_it(request, tag)) {
    response.status = 304;
    return response;
  }
  response.headers.set("Content-Type", file->type);
  if (gzip) response.headers.set("Content-Encoding", "gzip");
  const auto bytes = gzip ? file->gzip : file->plain;
  response.body.assign(bytes.begin(), bytes.end());
  return response;
}

void set_page_headers(HttpResponse& response) {
  response.headers.set("Content-Security-Policy", kPolicy);
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.headers.set("X-Frame-Options", "DENY");
  response.headers.set("Referrer-Policy", "no-referrer");
  response.headers.set("Cross-Origin-Opener-Policy", "same-origin");
  response.headers.set("Cross-Origin-Resource-Policy", "same-origin");
}

}  // namespace leat
