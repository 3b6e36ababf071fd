// SPDX-License-Identifier: Apache-2.0
#include "apps/daemon/memory_size.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace leat {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Nothing that is a number: no limit.
uint64_t limit_in(const std::filesystem::path& file) {
  uint64_t bytes = 0;
  return std::ifstream(file) >> bytes ? bytes : UINT64_MAX;
}

}  // namespace

uint64_t usable_memory_bytes(const std::string& cgroup_file, const std::string& cgroup_root) {
  uint64_t usable =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream lines(cgroup_file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("0::/")) continue;
    std::filesystem::path below = std::filesystem::path(line.substr(4)).lexically_normal();
    const std::filesystem::path root = cgroup_root;
    for (; !below.empty(); below = below.parent_path()) {
      usable = std::min(usable, limit_in(root / below / "memory.max"));
    }
    usable = std::min(usable, limit_in(root / "memory.max"));
  }
  return usable;
}

uint64_t default_memory_bytes(uint64_t usable) {
  return std::min(std::clamp(usable / 32, 256 * kMiB, 1024 * kMiB), usable / 4);
}

}  // namespace leat
