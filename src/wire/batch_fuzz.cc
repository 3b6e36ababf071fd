// SPDX-License-Identifier: Apache-2.0
// Decodes any bytes as a batch and as its answer: an error, or a value that survives a round trip.
#include "wire/batch.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

namespace leat {
namespace {

PeerReadRequest read_of(std::string key, uint64_t bytes) {
  return {.mount = "/data",
          .file = FileRef::make({}, std::move(key), Version::etag("\"x\""), 100),
          .range = {1, bytes}};
}

std::vector<PeerReadRequest> asked() {
  return {read_of("a", 3), read_of("\xff", 1), read_of("c", 2)};
}

BatchAnswer answered() {
  return {Bytes::copy_of("abc"), error(StatusCode::kVersionChanged, "\xff"), Bytes::copy_of("de")};
}

void decode_requests(std::string_view body) {
  const auto requests = decode_batch(body);
  if (!requests) return;
  LEAT_CHECK(check_batch(*requests).has_value());
  const auto again = decode_batch(encode_batch(*requests));
  LEAT_CHECK(again && again->size() == requests->size());
  for (size_t i = 0; i < again->size(); ++i) {
    LEAT_CHECK((*again)[i].file.id == (*requests)[i].file.id);
    LEAT_CHECK((*again)[i].range == (*requests)[i].range);
  }
}

void decode_answer(const Bytes& body) {
  const auto requests = asked();
  const auto answer = decode_batch_answer(body, requests);
  if (!answer) return;
  LEAT_CHECK(answer->size() == requests.size());
  const auto again = decode_batch_answer(encode_batch_answer(*answer, false), requests);
  LEAT_CHECK(again.has_value());
  for (size_t i = 0; i < answer->size(); ++i) {
    const auto& one = (*answer)[i];
    const auto& other = (*again)[i];
    LEAT_CHECK(one.has_value() == other.has_value());
    if (one) LEAT_CHECK(one->to_string() == other->to_string());
    if (!one) LEAT_CHECK(one.error().message() == other.error().message());
  }
}

// Splits the body in two, as it may arrive.
Bytes in_pieces(std::string_view text) {
  Bytes body = Bytes::copy_of(text.substr(0, text.size() / 2));
  body.append(Bytes::copy_of(text.substr(text.size() / 2)));
  return body;
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::write_seed(folder, "requests", leat::encode_batch(leat::asked()));
  leat::write_seed(folder, "answer", leat::encode_batch_answer(leat::answered(), true).to_string());
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  leat::decode_requests(text);
  leat::decode_answer(leat::in_pieces(text));
  return 0;
}
