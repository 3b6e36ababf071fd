// SPDX-License-Identifier: Apache-2.0
#include "source/file/file_system_type.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>

namespace leat {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// Types that the headers of Debian 12 do not name.
constexpr long kBcachefs = 0xca451a4e;
constexpr long kExfat = 0x2011bab0;
constexpr long kHfsPlus = 0x482b;
constexpr long kJfs = 0x3153464a;
constexpr long kNtfs3 = 0x7366746e;
constexpr long kZfs = 0x2fc12fc1;

constexpr std::array kLocalTypes = {
    static_cast<long>(EXT4_SUPER_MAGIC),  // and ext2, ext3
    static_cast<long>(XFS_SUPER_MAGIC),
    static_cast<long>(BTRFS_SUPER_MAGIC),
    static_cast<long>(F2FS_SUPER_MAGIC),
    static_cast<long>(TMPFS_MAGIC),
    static_cast<long>(RAMFS_MAGIC),
    static_cast<long>(OVERLAYFS_SUPER_MAGIC),
    static_cast<long>(EROFS_SUPER_MAGIC_V1),
    static_cast<long>(SQUASHFS_MAGIC),
    static_cast<long>(ISOFS_SUPER_MAGIC),
    static_cast<long>(UDF_SUPER_MAGIC),
    static_cast<long>(MSDOS_SUPER_MAGIC),
    static_cast<long>(NILFS_SUPER_MAGIC),
    static_cast<long>(REISERFS_SUPER_MAGIC),
    kBcachefs,
    kExfat,
    kHfsPlus,
    kJfs,
    kNtfs3,
    kZfs,
};

// Devices known not to be local, so that a read on NFS does not cost an additional request. Only
// these are cached. If a device number passes to another file system, a local disk is slower for a
// minute, but a file system that hangs never counts as local.
class RemoteDevices {
 public:
  bool contains(dev_t device) {
    std::lock_guard lock(mutex_);
    auto found = until_.find(device);
    return found != until_.end() && found->second > std::chrono::steady_clock::now();
  }
  void add(dev_t device) {
    std::lock_guard lock(mutex_);
    if (until_.size() >= kDevicesMax) until_.clear();
    until_[device] = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  }

 private:
  static constexpr size_t kDevicesMax = 1000;
  std::mutex mutex_;  // leaf
  std::map<dev_t, SteadyTime> until_;
};

template <class Query>
bool decide(dev_t device, Query query) {
  static auto* const remote = new RemoteDevices;  // used by threads that may outlive main
  if (remote->contains(device)) return false;
  struct statfs info;
  if (query(&info) != 0) return false;
  if (is_local_type(info.f_type)) return true;
  remote->add(device);
  return false;
}

}  // namespace

bool is_local_type(long type) {
  return std::ranges::find(kLocalTypes, type) != kLocalTypes.end();
}

bool is_on_local_disk(int fd, dev_t device) {
  return decide(device, [fd](struct statfs* info) { return ::fstatfs(fd, info); });
}

bool is_on_local_disk(const std::string& path, dev_t device) {
  return decide(device, [&](struct statfs* info) { return ::statfs(path.c_str(), info); });
}

}  // namespace leat
