// SPDX-License-Identifier: Apache-2.0
// Decodes any text as a token's line, its claims or their JSON: an error, or a value that survives
// a round trip.
#include "auth/token.h"

#include "base/base64.h"
#include "base/check.h"
#include "base/seeds_fuzz.h"

namespace leat {
namespace {

void decode(std::string_view text) {
  const auto claims = decode_claims(text);
  if (!claims) return;
  const auto written = encode_claims(*claims);
  // Text that was shorter than its canonical form may be too large to encode.
  if (!written) return;
  LEAT_CHECK(decode_claims(*written) == *claims);
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  const leat::Secret secret(std::string(32, 's'));
  const auto token = leat::issue(secret, leat::TokenClaims::of_worker({}));
  leat::write_seed(folder, "line", token->to_line());
  leat::write_seed(folder, "claims", token->claims);
  leat::write_seed(folder, "json", *leat::from_base64url(token->claims));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  leat::decode(text);
  leat::decode(leat::base64url(text));
  if (const auto token = leat::Token::parse(text)) {
    LEAT_CHECK(leat::Token::parse(token->to_line())->key == token->key);
  }
  return 0;
}
