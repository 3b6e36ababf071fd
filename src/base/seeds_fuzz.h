// SPDX-License-Identifier: Apache-2.0
// Seeds of the fuzzers. The writers of a format produce them at start, so that the tree holds none
// and all have the current format.
#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/crc32c.h"

namespace leat {

// For LLVMFuzzerInitialize: returns the folder of seeds, which is the first argument that is no
// option. Creates it if needed. Empty if there is no such argument.
inline std::string seed_folder(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] == '-') continue;
    std::filesystem::create_directories(argv[i]);
    return argv[i];
  }
  return "";
}

inline void write_seed(const std::string& folder, const std::string& name, std::string_view bytes) {
  if (!folder.empty()) std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
}

inline std::vector<std::byte> bytes_of(const uint8_t* data, size_t size) {
  const auto* from = reinterpret_cast<const std::byte*>(data);
  return {from, from + size};
}

// Writes a matching checksum, so that the fuzzer also reaches the code behind the check.
inline void put_crc(std::span<std::byte> bytes, size_t at, uint32_t crc) {
  if (at + sizeof crc <= bytes.size()) std::memcpy(bytes.data() + at, &crc, sizeof crc);
}

}  // namespace leat
