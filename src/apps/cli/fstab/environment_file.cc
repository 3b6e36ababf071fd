// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/fstab/environment_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>

#include "runtime/disk.h"

namespace leat {
namespace {

constexpr size_t kFileBytesMax = 1 << 20;

Result<> check_private(int fd, const std::string& path) {
  struct stat found{};
  if (fstat(fd, &found) != 0) return error(status_from_errno(errno, "cannot stat " + path));
  if (!S_ISREG(found.st_mode)) {
    return error(StatusCode::kInvalidArgument, path + " is not a file");
  }
  if (found.st_uid != 0 && found.st_uid != geteuid()) {
    return error(StatusCode::kPermissionDenied,
                 fmt::format("{} belongs to user {}, who could change what is read from it; "
                             "'chown root {}'",
                             path, found.st_uid, path));
  }
  if ((found.st_mode & 077) != 0) {
    return error(StatusCode::kPermissionDenied,
                 fmt::format("others may read or write {0}; 'chmod 600 {0}'", path));
  }
  return {};
}

Result<std::string> read_whole(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return error(status_from_errno(errno, "cannot read " + path));
  LEAT_CHECK_OK(check_private(file.fd(), path));
  std::string text;
  char piece[4096];
  while (true) {
    const ssize_t n = ::read(file.fd(), piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error(status_from_errno(errno, "cannot read " + path));
    if (n == 0) return text;
    text.append(piece, static_cast<size_t>(n));
    if (text.size() > kFileBytesMax) {
      return error(StatusCode::kInvalidArgument, path + " is larger than 1 MiB");
    }
  }
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool names_a_variable(std::string_view name) {
  auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::ranges::all_of(name, allowed);
}

std::string unquoted(std::string_view value) {
  const bool quoted =
      value.size() >= 2 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0];
  return std::string(quoted ? value.substr(1, value.size() - 2) : value);
}

}  // namespace

Result<Environment> read_environment_file(const std::string& path) {
  LEAT_TRY(const std::string text, read_whole(path));
  Environment environment;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string_view words = trimmed(line);
    if (words.empty() || words[0] == '#' || words[0] == ';') continue;
    const size_t equals = words.find('=');
    if (equals == std::string_view::npos || !names_a_variable(words.substr(0, equals)) ||
        words.contains('\0')) {
      return error(StatusCode::kInvalidArgument,
                   fmt::format("line {} of {} is not of the form NAME=value", number, path));
    }
    environment[std::string(words.substr(0, equals))] = unquoted(words.substr(equals + 1));
  }
  return environment;
}

Result<std::string> differing_names(const Environment& wanted, int pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid));
  if (!file) {
    return error(status_from_errno(errno, fmt::format("cannot read the environment of {}", pid)));
  }
  Environment has;
  for (std::string variable; std::getline(file, variable, '\0');) {
    const size_t equals = variable.find('=');
    if (equals != std::string::npos) has[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  std::string names;
  for (const auto& [name, value] : wanted) {
    if (auto found = has.find(name); found != has.end() && found->second == value) continue;
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

}  // namespace leat
