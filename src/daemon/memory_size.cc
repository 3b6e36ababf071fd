// SPDX-License-Identifier: Apache-2.0
#include "daemon/memory_size.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace leat {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Any other text than a number means no limit.
uint64_t limit_in(const std::filesystem::path& file) {
  uint64_t bytes = 0;
  return std::ifstream(file) >> bytes ? bytes : UINT64_MAX;
}

// The smallest limit of the group `below` the root, and of those above it.
uint64_t least_limit(const std::filesystem::path& root, const std::string& below,
                     const char* file) {
  uint64_t least = limit_in(root / file);
  for (auto group = std::filesystem::path(below).lexically_normal(); !group.empty();
       group = group.parent_path()) {
    least = std::min(least, limit_in(root / group / file));
  }
  return least;
}

}  // namespace

uint64_t usable_memory_bytes(const std::string& cgroup_file, const std::string& cgroup_root) {
  uint64_t usable =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream lines(cgroup_file);
  for (std::string line; std::getline(lines, line);) {
    // "hierarchy:controllers:/path"; version 2 has number 0 and no controllers.
    const size_t colon = line.find(':');
    const size_t path = line.find(":/");
    if (colon == std::string::npos || path == std::string::npos) continue;
    const std::string controllers =
        "," + line.substr(colon + 1, std::max(path, colon + 1) - colon - 1) + ",";
    const std::string below = line.substr(path + 2);
    const std::filesystem::path root = cgroup_root;
    if (line.starts_with("0::/")) {
      usable = std::min(usable, least_limit(root, below, "memory.max"));
    } else if (controllers.contains(",memory,")) {
      usable = std::min(usable, least_limit(root / "memory", below, "memory.limit_in_bytes"));
    }
  }
  return usable;
}

uint64_t default_memory_bytes(uint64_t usable) {
  return std::min(std::clamp(usable / 32, 256 * kMiB, 1024 * kMiB),
                  std::max(usable / 4, 32 * kMiB));
}

uint64_t memory_bytes_of(const Config& config) {
  const uint64_t configured = config.bytes("fetch.memory_size");
  return configured > 0 ? configured : default_memory_bytes(usable_memory_bytes());
}

}  // namespace leat
