// SPDX-License-Identifier: Apache-2.0
// Invariant: the file appears under its name complete and with mode 0600, by rename.
#include "frontends/console/console_token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "runtime/disk.h"
#include "telemetry/log.h"

namespace leat {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr size_t kTokenDigits = 2 * kTokenBytes;

bool is_token(std::string_view text) {
  auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == kTokenDigits && std::ranges::all_of(text, digit);
}

Result<std::string> random_token() {
  std::array<unsigned char, kTokenBytes> bits{};
  // For so few bytes, getrandom(2) returns all or an error.
  while (getrandom(bits.data(), bits.size(), 0) < 0) {
    if (errno != EINTR) return error(status_from_errno(errno, "cannot get random bits"));
  }
  std::string text;
  for (unsigned char byte : bits) text += fmt::format("{:02x}", byte);
  return text;
}

Result<> write_whole(const std::string& path, const std::string& text) {
  unlink(path.c_str());  // left by a daemon that was killed during the write
  File file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  // Sets the mode, whatever the umask is.
  if (!file || fchmod(file.fd(), 0600) != 0 ||
      write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return error(status_from_errno(errno, "cannot write " + path));
  }
  return {};
}

}  // namespace

std::string console_token_file(const std::string& runtime) {
  return runtime + "/console.token";
}

Result<std::string> read_console_token(const std::string& runtime) {
  const std::string path = console_token_file(runtime);
  // O_NONBLOCK: must not wait for a pipe under its name.
  File file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ELOOP) {
    return error(StatusCode::kPermissionDenied,
                 fmt::format("{} is a symbolic link, and no file of the daemon", path));
  }
  if (!file) return error(status_from_errno(errno, "cannot read " + path));
  struct stat found{};
  if (fstat(file.fd(), &found) != 0) return error(status_from_errno(errno, "cannot read " + path));
  if (!S_ISREG(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 077) != 0) {
    return error(StatusCode::kPermissionDenied,
                 fmt::format("{} is no file that only this user can read", path));
  }
  std::array<char, kTokenDigits + 2> text{};
  const ssize_t read = ::read(file.fd(), text.data(), text.size());
  if (read < 0) return error(status_from_errno(errno, "cannot read " + path));
  std::string_view token(text.data(), static_cast<size_t>(read));
  if (token.ends_with('\n')) token.remove_suffix(1);
  if (!is_token(token)) return error(StatusCode::kCorrupt, path + " does not hold a token");
  return std::string(token);
}

Result<std::string> make_console_token(const std::string& runtime) {
  Result<std::string> there = read_console_token(runtime);
  if (there) return there;
  if (there.error().code() != StatusCode::kNotFound) {
    log::warning("the console gets a new token: {}", there.error().to_string());
  }
  const std::string path = console_token_file(runtime);
  LEAT_TRY(std::string token, random_token());
  LEAT_CHECK_OK(write_whole(path + ".new", token + "\n"));
  if (rename((path + ".new").c_str(), path.c_str()) != 0) {
    const int failed = errno;
    unlink((path + ".new").c_str());
    return error(status_from_errno(failed, "cannot replace " + path));
  }
  return token;
}

bool same_token(std::string_view expected, std::string_view given) {
  // The length is no secret; an empty token opens nothing.
  return !expected.empty() && given.size() == expected.size() &&
         CRYPTO_memcmp(expected.data(), given.data(), expected.size()) == 0;
}

}  // namespace leat
