// SPDX-License-Identifier: Apache-2.0
#include "auth/cluster_secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/base64.h"
#include "base/check.h"
#include "runtime/disk.h"

namespace leat {
namespace {

constexpr size_t kFileBytesMax = 64 * 1024;

std::string_view without_blanks(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t from = line.find_first_not_of(kBlanks);
  if (from == line.npos) return {};
  return line.substr(from, line.find_last_not_of(kBlanks) - from + 1);
}

}  // namespace

Result<SecretSet> SecretSet::parse(std::string_view text, std::string_view where) {
  SecretSet set;
  auto wrong = [&](std::string reason) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("{}: {}; a secret is a line that this makes: {}", where, reason,
                             "openssl rand 32 | basenc --base64url -w0 | tr -d ="));
  };
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), whole.size() + 1));
    const std::string_view line = without_blanks(whole);
    if (line.empty() || line.starts_with('#')) continue;
    const auto secret = from_base64url(line);
    if (!secret) return wrong(fmt::format("line {} is no secret in base64url", number));
    if (secret->size() < kSecretBytesMin) {
      return wrong(fmt::format("the secret in line {} has {} bytes, and {} are the least", number,
                               secret->size(), kSecretBytesMin));
    }
    if (set.secrets.size() == kSecretsMax) {
      return wrong(fmt::format("there are more than {} secrets", kSecretsMax));
    }
    set.secrets.emplace_back(*secret);
  }
  if (set.secrets.empty()) return wrong("there is no secret in it");
  return set;
}

std::string make_secret() {
  std::array<char, kSecretBytesMin> bytes;
  LEAT_CHECK(getrandom(bytes.data(), bytes.size(), 0) == bytes.size());
  return "# A secret of a Leat cluster, the same on all of its workers. The first line signs.\n" +
         base64url({bytes.data(), bytes.size()}) + "\n";
}

Result<std::string> read_secret_file(const std::string& path, const char* what) {
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return error(status_from_errno(errno, fmt::format("cannot read {} {}", what, path)));
  struct stat found{};
  if (fstat(file.fd(), &found) != 0 || !S_ISREG(found.st_mode)) {
    return error(StatusCode::kInvalidArgument, fmt::format("{} {} is no file", what, path));
  }
  if ((found.st_mode & 077) != 0) {
    return error(
        StatusCode::kPermissionDenied,
        fmt::format("others may read {} {}, so it is no secret: make a new one if they may "
                    "have, and run: chmod 600 {}",
                    what, path, path));
  }
  std::string text(kFileBytesMax + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.fd(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return error(status_from_errno(errno, fmt::format("cannot read {} {}", what, path)));
    }
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > kFileBytesMax) {
    return error(StatusCode::kInvalidArgument,
                 fmt::format("{} {} is larger than {} bytes", what, path, kFileBytesMax));
  }
  text.resize(size);
  return text;
}

Result<std::unique_ptr<SecretFile>> SecretFile::open(std::string path) {
  std::unique_ptr<SecretFile> file(new SecretFile(std::move(path)));
  LEAT_TRY(const bool read, file->reload());
  LEAT_CHECK(read);
  return file;
}

SecretSetPtr SecretFile::current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

Result<SecretFile::Stamp> SecretFile::stamp() const {
  struct stat found{};
  if (stat(path_.c_str(), &found) != 0) {
    return error(status_from_errno(errno, "cannot stat the cluster's secret " + path_));
  }
  return Stamp{found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec,
               static_cast<uint64_t>(found.st_size), found.st_ino};
}

// Takes the stamp before it reads the file, so that the next call sees a concurrent change.
Result<bool> SecretFile::reload() {
  LEAT_TRY(const Stamp now, stamp());
  {
    std::lock_guard lock(mutex_);
    if (current_ != nullptr && now == seen_) return false;
  }
  LEAT_TRY(const std::string text, read_secret_file(path_, "the cluster's secret"));
  LEAT_TRY(SecretSet set, SecretSet::parse(text, path_));
  std::lock_guard lock(mutex_);
  seen_ = now;
  current_ = std::make_shared<const SecretSet>(std::move(set));
  return true;
}

}  // namespace leat
