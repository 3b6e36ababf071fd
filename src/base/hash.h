// SPDX-License-Identifier: Apache-2.0
// Fixed 64-bit hashes for data that is persisted or that decides placement. std::hash is not fixed,
// so it is not allowed there.
#pragma once

#include <cstdint>
#include <string_view>

namespace leat {

// splitmix64's finaliser (Steele, Lea, Flood 2014): all bits depend on all bits.
constexpr uint64_t hash_mix(uint64_t bits) {
  bits ^= bits >> 30;
  bits *= 0xbf58476d1ce4e5b9ull;
  bits ^= bits >> 27;
  bits *= 0x94d049bb133111ebull;
  bits ^= bits >> 31;
  return bits;
}

// FNV-1a followed by a 64-bit finaliser; for short keys such as paths. Not for hostile input.
constexpr uint64_t hash_bytes(std::string_view text, uint64_t seed = 0) {
  uint64_t hash = 0xcbf29ce484222325ull ^ seed;  // FNV offset basis
  for (char c : text) {
    hash ^= static_cast<uint8_t>(c);
    hash *= 0x100000001b3ull;  // FNV prime
  }
  return hash_mix(hash);
}

}  // namespace leat
