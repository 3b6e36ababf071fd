// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/connection_backings.h"

#include <sys/ioctl.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "telemetry/log.h"

namespace leat {
namespace {

// linux/fuse.h of 6.9; Debian 12's headers lack it.
struct BackingMap {
  int32_t fd;
  uint32_t flags;
  uint64_t padding;
};
constexpr unsigned long kBackingOpen = _IOW(229, 1, BackingMap);
constexpr unsigned long kBackingClose = _IOW(229, 2, uint32_t);

}  // namespace

Result<int> ConnectionBackings::add(int fd) {
  BackingMap map{.fd = fd, .flags = 0, .padding = 0};
  const int id = ::ioctl(fd_, kBackingOpen, &map);
  if (id > 0) return id;
  const int failed = errno;
  std::string text =
      "the kernel rejected a backing file: " + std::generic_category().message(failed);
  switch (failed) {
    case EPERM:
      return error(StatusCode::kPermissionDenied, text + " (it needs CAP_SYS_ADMIN)");
    case ELOOP:
      return error(StatusCode::kUnsupported, text + " (it lies on a stacked file system)");
    case EOPNOTSUPP:
    case ENOTTY:
    case EINVAL:
      return error(StatusCode::kUnsupported, std::move(text));
    default:
      return error(StatusCode::kUnavailable, std::move(text));
  }
}

void ConnectionBackings::remove(int id) {
  auto number = static_cast<uint32_t>(id);
  if (::ioctl(fd_, kBackingClose, &number) == 0) return;
  log::debug("failed to release backing id {}: {}", id, std::generic_category().message(errno));
}

}  // namespace leat
