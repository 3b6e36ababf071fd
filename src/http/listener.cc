// SPDX-License-Identifier: Apache-2.0
#include "http/listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace leat {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

Result<Address> unix_address(const std::string& path) {
  Address address;
  auto* local = reinterpret_cast<sockaddr_un*>(&address.storage);
  if (path.size() >= sizeof local->sun_path) {
    return error(
        StatusCode::kInvalidArgument,
        fmt::format("cannot listen at {}: a socket's path may have {} characters, this one "
                    "has {}; choose a shorter LEAT_RUNTIME_DIR",
                    path, sizeof local->sun_path - 1, path.size()));
  }
  local->sun_family = AF_UNIX;
  std::memcpy(local->sun_path, path.c_str(), path.size() + 1);
  address.size = sizeof *local;
  return address;
}

Result<Address> ip_address(const HttpEndpoint& endpoint) {
  Address address;
  std::string host = endpoint.host == "localhost" ? "127.0.0.1" : endpoint.host;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(endpoint.port);
    address.size = sizeof *v4;
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(endpoint.port);
    address.size = sizeof *v6;
    return address;
  }
  return error(
      StatusCode::kInvalidArgument,
      fmt::format("cannot listen at {}: '{}' is not an IP address", endpoint.to_string(), host));
}

// A socket file outlives its process; it may be removed only if no server answers there.
Result<> remove_stale(const Address& address, const std::string& path) {
  struct stat found{};
  if (lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) {
    return error(
        StatusCode::kExists,
        fmt::format("cannot listen at {}: there is something that is no socket; remove it", path));
  }
  int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return error(status_from_errno(errno, "cannot make a socket"));
  bool refused = connect(probe, address.get(), address.size) != 0 && errno == ECONNREFUSED;
  ::close(probe);
  if (!refused) {
    return error(StatusCode::kBusy,
                 fmt::format("cannot listen at {}: another process already does", path));
  }
  unlink(path.c_str());
  return {};
}

Result<> bind_and_listen(int fd, const Address& address, const HttpEndpoint& endpoint) {
  if (address.family() == AF_UNIX) {
    // Linux gives the file the mode of the socket's inode, so no client can connect before it is
    // 0600.
    fchmod(fd, 0600);
  } else {
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  if (bind(fd, address.get(), address.size) != 0 || listen(fd, SOMAXCONN) != 0) {
    int failed = errno;
    std::string what = fmt::format("cannot listen at {}", endpoint.to_string());
    if (failed == EADDRINUSE) {
      return error(StatusCode::kBusy, what + ": the address is in use by another process");
    }
    return error(status_from_errno(failed, what));
  }
  return {};
}

uint16_t bound_port(int fd) {
  Address address;
  address.size = sizeof address.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) return 0;
  if (address.family() == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

}  // namespace

Result<Listener> open_listener(HttpEndpoint endpoint) {
  bool is_unix = !endpoint.unix_path.empty();
  LEAT_TRY(Address address, is_unix ? unix_address(endpoint.unix_path) : ip_address(endpoint));
  if (is_unix) LEAT_CHECK_OK(remove_stale(address, endpoint.unix_path));
  int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return error(status_from_errno(errno, "cannot make a socket"));
  if (auto bound = bind_and_listen(fd, address, endpoint); !bound) {
    ::close(fd);
    return error(std::move(bound).error());
  }
  if (!is_unix) endpoint.port = bound_port(fd);
  return Listener{fd, address.family(), std::move(endpoint)};
}

}  // namespace leat
