// SPDX-License-Identifier: Apache-2.0
#include "runtime/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace leat {
namespace {

constexpr uint64_t kBesideCaches = 4096;
constexpr uint64_t kRequestsMin = 4;  // however small the limit

}  // namespace

uint64_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : UINT64_MAX;
}

uint64_t descriptors_beside_caches() {
  return std::min(kBesideCaches, descriptor_limit() / 2);
}

unsigned requests_within_descriptors(unsigned wanted) {
  const uint64_t share = std::max(kRequestsMin, descriptors_beside_caches() / 4);
  return static_cast<unsigned>(std::min<uint64_t>(wanted, share));
}

}  // namespace leat
