// SPDX-License-Identifier: Apache-2.0
#include "daemon/memory_size.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/id128.h"

namespace leat {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30;

TEST(MemorySize, IsAShareOfWhatThereIs) {
  EXPECT_EQ(default_memory_bytes(16 * kGiB), 512 * kMiB);
  EXPECT_EQ(default_memory_bytes(4 * kGiB), 256 * kMiB);
  EXPECT_EQ(default_memory_bytes(1024 * kGiB), kGiB);
  EXPECT_EQ(default_memory_bytes(512 * kMiB), 128 * kMiB);
  EXPECT_EQ(default_memory_bytes(64 * kMiB), 32 * kMiB);
}

TEST(MemorySize, TheLeastOfTheCgroupAndThoseAboveCounts) {
  const std::filesystem::path root =
      std::filesystem::temp_directory_path() / ("leat-cgroup-" + Id128::random().to_hex());
  std::filesystem::create_directories(root / "a/b");
  auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(root / name) << text << "\n";
  };
  auto usable = [&] { return usable_memory_bytes(root / "self", root); };
  write("self", "0::/a/b");
  const uint64_t machine = usable();
  EXPECT_EQ(machine, usable_memory_bytes("/nowhere", root));
  write("a/b/memory.max", "max");
  EXPECT_EQ(usable(), machine);
  write("a/memory.max", "1048576");
  EXPECT_EQ(usable(), kMiB);
  write("a/b/memory.max", "4096");
  EXPECT_EQ(usable(), 4096u);
  write("self", "0::/");
  EXPECT_EQ(usable(), machine);
  // Version 1: only the hierarchy of the memory controller counts.
  std::filesystem::create_directories(root / "memory/x/y");
  write("memory/x/memory.limit_in_bytes", "2097152");
  write("memory/x/y/memory.limit_in_bytes", "9223372036854771712");
  write("self", "8:pids:/x\n4:cpu,memory:/x/y\n0::/");
  EXPECT_EQ(usable(), 2 * kMiB);
  write("self", "8:pids:/x\n4:cpu:/x/y\n0::/");
  EXPECT_EQ(usable(), machine);
  // A container sees its own group as the root.
  write("memory/memory.limit_in_bytes", "4194304");
  write("self", "4:memory:/docker/abc\n0::/");
  EXPECT_EQ(usable(), 4 * kMiB);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace leat
