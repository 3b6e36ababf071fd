// SPDX-License-Identifier: Apache-2.0
// What fuzzers begin with: files that the writers of a format made just now, so that none is kept
// in the tree and all are of the current format.
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

// Of LLVMFuzzerInitialize: the folder of seeds, which is the first argument that is no option, made
// if need be.
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

// A checksum that fits, so that what lies behind it is reached, too.
inline void put_crc(std::span<std::byte> bytes, size_t at, uint32_t crc) {
  if (at + sizeof crc <= bytes.size()) std::memcpy(bytes.data() + at, &crc, sizeof crc);
}

}  // namespace leat
