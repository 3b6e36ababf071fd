// SPDX-License-Identifier: Apache-2.0
// Random inputs for the property tests of this module; LEAT_TEST_SEED=… repeats a run.
#pragma once

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <string_view>

namespace leat::testing {

class Random {
 public:
  Random() {
    const char* given = std::getenv("LEAT_TEST_SEED");
    const uint64_t seed =
        given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
    std::cout << "seed: LEAT_TEST_SEED=" << seed << std::endl;
    bits_.seed(seed);
  }

  uint64_t bits() { return bits_(); }
  // From 0 to `max`; the ends are more frequent than uniform.
  uint64_t upto(uint64_t max) {
    switch (bits_() % 8) {
      case 0:
        return 0;
      case 1:
        return max;
      default:
        return max == UINT64_MAX ? bits_() : bits_() % (max + 1);
    }
  }
  bool coin() { return bits_() % 2 == 0; }
  // Any bytes except those in `without`.
  std::string bytes(size_t size_max, std::string_view without = {}) {
    std::string text(upto(size_max), '\0');
    for (char& c : text) {
      do {
        c = static_cast<char>(coin() ? bits_() % 128 : bits_());
      } while (without.contains(c));
    }
    return text;
  }
  // Characters of several scripts, and some that JSON and targets escape.
  std::string words(size_t size_max) {
    static constexpr std::string_view kWords[] = {
        "a", "0", " ", "\"", "\\", "\n", "é", "%", "\xe2\x82\xac", "\xf0\x9f\x90\x88", "/", "+"};
    std::string text;
    for (uint64_t left = upto(size_max); left > 0; --left)
      text += kWords[bits_() % std::size(kWords)];
    return text;
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace leat::testing
