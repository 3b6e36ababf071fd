// SPDX-License-Identifier: Apache-2.0
// Decodes lines of any text as target, Range and other fields of a read: an error, or a value that
// survives a round trip.
#include "wire/read_request.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

namespace leat {
namespace {

constexpr const char* kFields[] = {"range", "cache-control", kFailoverForField, kTimeoutField};

std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

void decode(std::string_view text) {
  if (const auto range = parse_content_range(text)) {
    LEAT_CHECK(parse_content_range(content_range_text(*range)) == *range);
  }
  HttpRequest http;
  if (!parse_target(next_line(text), http)) return;
  for (const char* name : kFields) {
    const std::string_view line = next_line(text);
    if (!line.empty()) http.headers.set(name, std::string(line));
  }
  const auto request = read_request_from(http);
  if (!request) return;
  LEAT_CHECK(request->range.offset < request->file.size);
  LEAT_CHECK(request->range.size <= request->file.size - request->range.offset);
  const auto again = read_request_from(to_http(*request));
  LEAT_CHECK(again.has_value());
  LEAT_CHECK(again->file.id == request->file.id && again->mount == request->mount);
  LEAT_CHECK(again->range == request->range && again->header == request->header);
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::PeerReadRequest request{
      .mount = "/m",
      .file = leat::FileRef::make({}, "a/b", leat::Version::etag("\"x\""), 100),
      .range = {10, 20},
      .header = {.epoch = 3, .only_if_cached = true, .failover_for = leat::WorkerId()}};
  request.header.timeout = std::chrono::seconds(1);
  const leat::HttpRequest http = leat::to_http(request);
  std::string text = leat::make_target(http.path, http.query);
  for (const char* name : leat::kFields) {
    text += '\n';
    text += http.headers.find(name).value_or("");
  }
  leat::write_seed(folder, "request", text);
  leat::write_seed(folder, "range", leat::content_range_text({{1, 2}, 9}));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  leat::decode({reinterpret_cast<const char*>(data), size});
  return 0;
}
