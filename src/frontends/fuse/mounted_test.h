// SPDX-License-Identifier: Apache-2.0
// Mounted: a bucket in memory, mounted by the running kernel at a temporary directory, and helpers
// of FUSE tests.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "frontends/fuse/fuse_server.h"
#include "vfs/tree_rig_test.h"

namespace leat::testing {

// A mounted rig; always unmounted at the end.
class Mounted {
 public:
  explicit Mounted(TreeRigOptions tree = {}, FuseServerOptions options = {}) : rig(tree) {
    // The pid in the name identifies mounts of a killed test (tests/rig/leftovers.py).
    directory = fmt::format("/tmp/leat_fuse_{}_XXXXXX", ::getpid());
    LEAT_CHECK(::mkdtemp(directory.data()) != nullptr);
    options.mountpoint = directory;
    Result<std::unique_ptr<FuseServer>> mounted =
        FuseServer::mount(std::move(options), *rig.files, rig.executor);
    EXPECT_TRUE(mounted) << mounted.error().to_string();
    if (mounted) server = std::move(*mounted);
  }
  ~Mounted() {
    server.reset();
    EXPECT_EQ(::rmdir(directory.c_str()), 0) << "still mounted?";
  }

  std::string path(const std::string& name) const { return directory + "/" + name; }
  int open(const std::string& name, int flags = O_RDONLY) const {
    return ::open(path(name).c_str(), flags | O_CLOEXEC, 0644);
  }
  std::string content(const std::string& name) const {
    const int fd = open(name);
    EXPECT_GE(fd, 0) << name << ": " << strerror(errno);
    std::string text = read(fd, 0, 64 * kMiB);
    ::close(fd);
    return text;
  }
  // Returns the bytes from `offset` to the end, or the errno as text.
  static std::string read(int fd, uint64_t offset, size_t size) {
    std::string text;
    std::string part(std::min<size_t>(size, kMiB), '\0');
    while (text.size() < size) {
      const size_t wanted = std::min(part.size(), size - text.size());
      const ssize_t got =
          ::pread(fd, part.data(), wanted, static_cast<off_t>(offset + text.size()));
      if (got < 0) return std::string("failed: ") + strerror(errno);
      if (got == 0) break;
      text.append(part, 0, static_cast<size_t>(got));
    }
    return text;
  }

  TreeRig rig;
  std::string directory;
  std::unique_ptr<FuseServer> server;
};

// Polls for effects that the kernel causes in its own time (releases, invalidations). Fails after
// half a minute.
template <class Condition>
bool eventually(Condition condition) {
  const Clock::time_point end = Clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

inline std::set<std::string> names_in(const std::string& path) {
  std::set<std::string> names;
  DIR* directory = ::opendir(path.c_str());
  EXPECT_NE(directory, nullptr) << strerror(errno);
  if (directory == nullptr) return names;
  while (const dirent* entry = ::readdir(directory)) {
    EXPECT_TRUE(names.insert(entry->d_name).second) << entry->d_name << " was returned twice";
  }
  ::closedir(directory);
  return names;
}

}  // namespace leat::testing
