// SPDX-License-Identifier: Apache-2.0
// Reads the daemon's log: "TIME LEVEL TEXT" a line, or JSON with time, level and message
// (log.format).
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <utility>

#include "base/status.h"

namespace leat {

struct LogLine {
  std::string time{};   // empty: continues the line before
  std::string level{};  // "debug", "info", "warning", "error"
  std::string text{};
};

LogLine parse_log_line(const std::string& line);
// Returns whether the line has `level` or a more severe one; a continuation has the level of its
// line.
bool is_wanted(const LogLine& line, const std::string& level);

// Reads whole lines of a growing log, the older part first (telemetry/log_file.h). An incomplete
// last line waits for its rest.
class LogReader {
 public:
  explicit LogReader(std::string path) : path_(std::move(path)) {}
  // Passes the lines since the last call to `take`. Fails if there is no such file.
  Result<> read(const std::function<void(LogLine)>& take);

 private:
  void read_lines(std::istream& file, const std::function<void(LogLine)>& take);

  const std::string path_;
  uint64_t at_ = 0;  // offset in the file; all before was read
  bool begun_ = false;
  std::string rest_;
  std::string level_ = "info";
};

// Returns `text` without possible secrets: keys and tokens as they occur in stores' URLs and
// errors. For logs and errors that leave this host.
std::string without_secrets(std::string text);

}  // namespace leat
