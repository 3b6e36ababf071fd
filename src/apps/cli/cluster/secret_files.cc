// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/cluster/secret_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "model/mount_entry.h"
#include "runtime/disk.h"

namespace leat {
namespace {

Result<> grant(const std::vector<std::string>& paths, Right right, Rights& rights) {
  for (const std::string& one : paths) {
    LEAT_TRY(std::string path, normalise_path(one));
    rights.add(std::move(path), {right});
  }
  return {};
}

}  // namespace

Result<> write_secret_file(const std::string& path, const std::string& text) {
  File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.fd() < 0 && errno == EEXIST) {
    return error(StatusCode::kExists,
                 fmt::format("{} is there already; remove it, or name another file", path));
  }
  if (file.fd() < 0) return error(status_from_errno(errno, "cannot make " + path));
  const ssize_t written = ::write(file.fd(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) {
    return error(status_from_errno(errno, "cannot write " + path));
  }
  return {};
}

Result<TokenClaims> write_token(const std::string& file, const TokenRequest& request) {
  LEAT_TRY(auto secrets, SecretFile::open(request.secret_file));
  TokenClaims claims;
  claims.principal = request.principal;
  claims.id = Id128::random();
  LEAT_CHECK_OK(grant(request.readable, Right::kRead, claims.rights));
  LEAT_CHECK_OK(grant(request.writable, Right::kWrite, claims.rights));
  LEAT_CHECK_OK(grant(request.jobs, Right::kJobs, claims.rights));
  if (request.admin) claims.rights.add("/", {Right::kAdmin});
  if (request.readable.empty()) claims.rights.add("/", {Right::kRead});
  constexpr int64_t kDay = 24 * 3600;
  if (request.days > 0) {
    claims.expires = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()) +
                     static_cast<int64_t>(std::min<uint64_t>(request.days, 100'000)) * kDay;
  }
  LEAT_TRY(Token token, issue(secrets->current()->signing(), claims));
  LEAT_CHECK_OK(write_secret_file(file, token.to_line()));
  return claims;
}

}  // namespace leat
