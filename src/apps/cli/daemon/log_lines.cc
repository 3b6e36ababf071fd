// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/daemon/log_lines.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "telemetry/log_file.h"

namespace leat {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warning", "error"};

long rank_of(std::string_view level) {
  return std::ranges::find(kLevels, level) - kLevels.begin();
}

// Patterns of secrets: names in queries, headers, configurations and error documents of stores, and
// typical values.
struct Secret {
  const char* pattern;
  const char* instead;
};
constexpr std::array kSecrets = {
    // Signatures of queries: S3, Azure's SAS, Google.
    Secret{R"((?i)\b((?:x-(?:amz|goog)-(?:signature|credential|security-token)|sig|sv|se|token|)"
           R"(access_token|code|password|secret)=)[^&\s"'<>]+)",
           R"(\1***)"},
    Secret{R"((?i)(authorization["']?\s*[:=]\s*["']?(?:\w[\w-]*\s+)?)[^\s"',;]+)", R"(\1***)"},
    Secret{R"((?i)((?:secret[_-]?(?:access[_-]?)?key|session[_-]?token|account[_-]?key|password|)"
           R"(private[_-]?key(?:[_-]id)?|client[_-]?secret)["']?\s*[:=]\s*["']?)[^\s"',;&]+)",
           R"(\1***)"},
    // user:password@host
    Secret{R"((\w+://)[^/\s:@]+:[^/\s@]+@)", R"(\1***@)"},
    // Keys of AWS and tokens of Hugging Face and Google.
    Secret{R"(\b(?:AKIA|ASIA)[A-Z0-9]{16}\b)", "***"},
    Secret{R"(\bhf_[A-Za-z0-9]{20,}\b)", "***"},
    Secret{R"(\bya29\.[A-Za-z0-9_-]{20,})", "***"},
    Secret{R"((?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----)", "***"},
};

}  // namespace

LogLine parse_log_line(const std::string& line) {
  if (line.starts_with('{')) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_object() && object.contains("message")) {
      return {object.value("time", ""), object.value("level", "info"), object.value("message", "")};
    }
  }
  const size_t time_end = line.find(' ');
  const size_t level_end =
      time_end == std::string::npos ? std::string::npos : line.find(' ', time_end + 1);
  if (level_end == std::string::npos) return {.text = line};
  std::string level = line.substr(time_end + 1, level_end - time_end - 1);
  if (rank_of(level) == static_cast<long>(kLevels.size()) || line[0] < '0' || line[0] > '9') {
    return {.text = line};
  }
  return {line.substr(0, time_end), std::move(level), line.substr(level_end + 1)};
}

bool is_wanted(const LogLine& line, const std::string& level) {
  return rank_of(line.level) >= rank_of(level);
}

Result<> LogReader::read(const std::function<void(LogLine)>& take) {
  errno = 0;
  std::ifstream file(path_, std::ios::binary);
  if (!file) return error(status_from_errno(errno, "cannot read the log " + path_));
  file.seekg(0, std::ios::end);
  // A shorter file was truncated; unread lines are at the same offset of the older part.
  const bool shorter = static_cast<uint64_t>(file.tellg()) < at_;
  if (shorter || !begun_) {
    std::ifstream older(log::rotated_path(path_), std::ios::binary);
    older.seekg(static_cast<std::streamoff>(at_));
    if (older) read_lines(older, take);
    at_ = 0;
  }
  begun_ = true;
  file.seekg(static_cast<std::streamoff>(at_));
  read_lines(file, take);
  file.clear();
  at_ = static_cast<uint64_t>(file.tellg());
  return {};
}

void LogReader::read_lines(std::istream& file, const std::function<void(LogLine)>& take) {
  std::string part;
  while (std::getline(file, part)) {
    rest_ += part;
    if (file.eof()) return;  // incomplete line
    LogLine line = parse_log_line(rest_);
    rest_.clear();
    if (line.time.empty()) {
      line.level = level_;
    } else {
      level_ = line.level;
    }
    take(std::move(line));
  }
}

std::string without_secrets(std::string text) {
  for (const Secret& secret : kSecrets) {
    RE2::GlobalReplace(&text, RE2(secret.pattern, RE2::Latin1), secret.instead);
  }
  return text;
}

}  // namespace leat
