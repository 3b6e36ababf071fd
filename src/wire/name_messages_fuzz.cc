// SPDX-License-Identifier: Apache-2.0
// Decodes any text as a metadata answer and as a request target: an error, or a value that survives
// a round trip.
#include "wire/name_messages.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

namespace leat {
namespace {

ListResponse some_page() {
  ListResponse page{{{}, "\xff", 3}, std::chrono::milliseconds(12)};
  page.page.objects.push_back(
      {.key = "p/a/", .kind = FileKind::kDirectory, .size = 0, .version = {}, .mtime = {}});
  page.page.objects.push_back({.key = "p/\xff",
                               .kind = FileKind::kFile,
                               .size = 9,
                               .version = Version::etag("\"e\""),
                               .mtime = WallTime(std::chrono::nanoseconds(-1))});
  return page;
}

void decode_answers(std::string_view text) {
  for (const char* prefix : {"", "p/"}) {
    const auto page = decode_list_response(text, prefix);
    if (!page) continue;
    const std::string written = encode_list_response(*page);
    const auto again = decode_list_response(written, prefix);
    LEAT_CHECK(again && encode_list_response(*again) == written);
  }
  const auto stat = decode_stat_response(text);
  if (!stat) return;
  const std::string written = encode_stat_response(*stat);
  const auto again = decode_stat_response(written);
  LEAT_CHECK(again && encode_stat_response(*again) == written);
}

void decode_questions(std::string_view text) {
  HttpRequest request;
  if (!parse_target(text, request)) return;
  if (const auto list = list_request_from(request)) {
    const HttpRequest again = to_http(*list);
    LEAT_CHECK(list_request_from(again)->prefix == list->prefix);
    LEAT_CHECK(to_http(*list_request_from(again)).query == again.query);
  }
  if (const auto stat = stat_request_from(request)) {
    const HttpRequest again = to_http(*stat);
    LEAT_CHECK(stat_request_from(again)->key == stat->key);
  }
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  const leat::ListResponse page = leat::some_page();
  leat::write_seed(folder, "page", leat::encode_list_response(page));
  leat::write_seed(folder, "stat", leat::encode_stat_response({page.page.objects[1], page.age}));
  const auto list = leat::to_http(
      leat::PeerListRequest{.mount = "/m", .store = {}, .prefix = "p/", .token = "t"});
  leat::write_seed(folder, "list", leat::make_target(list.path, list.query));
  const auto stat = leat::to_http(leat::PeerStatRequest{.mount = "/m", .store = {}, .key = "k"});
  leat::write_seed(folder, "requested", leat::make_target(stat.path, stat.query));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  leat::decode_answers(text);
  leat::decode_questions(text);
  return 0;
}
