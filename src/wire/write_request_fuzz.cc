// SPDX-License-Identifier: Apache-2.0
// Decodes any text as the body of a change and as an answer: an error, or a value that survives a
// round trip.
#include "wire/write_request.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

namespace {

leat::HttpRequest request_of(leat::ChangeOp op, std::string body) {
  const leat::StoreId store(leat::Id128::digest({}));
  leat::HttpRequest http = leat::to_http({.op = op, .mount = "/data", .store = store});
  http.body = std::move(body);
  return http;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  const leat::PeerChange rename{
      .op = leat::ChangeOp::kRename, .mount = "/", .keys = {"a\xff", "b"}};
  leat::write_seed(folder, "rename", leat::to_http(rename).body);
  leat::SourceObject object;
  object.key = "a";
  leat::write_seed(folder, "answer", leat::encode_change_answer(object));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const leat::ChangeOp op : {leat::ChangeOp::kRemove, leat::ChangeOp::kRename}) {
    const auto change = leat::change_from(request_of(op, text));
    if (!change) continue;
    const auto again = leat::change_from(leat::to_http(*change));
    LEAT_CHECK(again && again->keys == change->keys && again->exclusive == change->exclusive);
  }
  if (const auto answer = leat::decode_change_answer(text)) {
    const auto again = leat::decode_change_answer(leat::encode_change_answer(*answer));
    LEAT_CHECK(again && again->key == answer->key && again->version == answer->version);
  }
  return 0;
}
