// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as the policy file: rejected, or decoded to policies that can be encoded again.
#include "cache/policy_file.h"

#include "base/check.h"
#include "base/seeds_fuzz.h"

namespace leat {
namespace {

void decode(std::span<const std::byte> bytes) {
  std::optional<PoolPolicies> policies = decode_policies(bytes);
  if (!policies) return;
  LEAT_CHECK(policies->size() <= kPolicyPoolsMax);
  const std::string written = encode_policies(*policies);
  LEAT_CHECK(written.size() == bytes.size());
  LEAT_CHECK(decode_policies(std::as_bytes(std::span(written))) == policies);
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::string folder = leat::seed_folder(*argc, *argv);
  leat::PoolPolicies policies;
  leat::write_seed(folder, "none", leat::encode_policies(policies));
  policies[leat::PoolId{7}] = {.name = "/data", .quota_bytes = 1 << 30, .pinned = true};
  leat::write_seed(folder, "one", leat::encode_policies(policies));
  policies[leat::PoolId{9}] = {
      .name = "/scratch/of/all", .ttl = std::chrono::hours(1), .priority = leat::Priority::kLow};
  leat::write_seed(folder, "two", leat::encode_policies(policies));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes = leat::bytes_of(data, size);
  leat::decode(bytes);
  if (bytes.size() >= 20) {
    const size_t body = bytes.size() - 4;
    leat::put_crc(bytes, body, leat::crc32c(std::span(bytes).first(body)));
    leat::decode(bytes);
  }
  return 0;
}
