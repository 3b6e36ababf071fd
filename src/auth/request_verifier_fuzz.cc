// SPDX-License-Identifier: Apache-2.0
// Lines of any text as the fields of a signature are rejected, because the secret is unknown. Valid
// signatures with other dates and nonces are rejected, or accepted exactly once.
#include "auth/request_verifier.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

namespace leat {
namespace {

constexpr const char* kFields[] = {kDateField, kNonceField, kToField, kTokenField, kSignatureField};

struct World {
  Token token = *issue(Secret(std::string(32, 's')), TokenClaims::of_worker({}));
  RequestVerifier verifier{
      std::make_shared<const SecretSet>(std::vector{Secret(std::string(32, 's'))}),
      {.self = WorkerId(*Id128::from_hex("000102030405060708090a0b0c0d0e0f")),
       .replay = {.sessions_max = 3},
       .now = [] { return int64_t{1'764'000'000}; }}};
};

void verify(World& world, std::string_view text) {
  HttpRequest request;
  for (const char* name : kFields) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.empty()) request.headers.set(name, std::string(line));
  }
  LEAT_CHECK(!world.verifier.verify(request));
  request.headers.set(kTokenField, world.token.claims);
  request.headers.set(kSignatureField, to_hex(HmacKey(world.token.key).sign(signed_text(request))));
  static_cast<void>(world.verifier.verify(request));
  LEAT_CHECK(!world.verifier.verify(request));
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::write_seed(folder, "signed",
                   "1764000001\n0000000000000007-1\n000102030405060708090a0b0c0d0e0f\nAA\n00");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static leat::World world;
  leat::verify(world, {reinterpret_cast<const char*>(data), size});
  return 0;
}
