// SPDX-License-Identifier: Apache-2.0
// The daemon's log, read back: "TIME LEVEL TEXT" a line, or an object with time, level and message
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
  std::string time{};   // empty: it goes on with the line before
  std::string level{};  // "debug", "info", "warning", "error"
  std::string text{};
};

LogLine parse_log_line(const std::string& line);
// Whether it is of `level` or graver; what goes on with a line is as that line.
bool is_wanted(const LogLine& line, const std::string& level);

// Whole lines of a log that grows, the older part first (telemetry/log_file.h); the end of one that
// is just being written waits for its rest.
class LogReader {
 public:
  explicit LogReader(std::string path) : path_(std::move(path)) {}
  // What came since it was read last. Fails where there is no such file.
  Result<> read(const std::function<void(LogLine)>& take);

 private:
  void read_lines(std::istream& file, const std::function<void(LogLine)>& take);

  const std::string path_;
  uint64_t at_ = 0;  // in the file; all before was read
  bool begun_ = false;
  std::string rest_;
  std::string level_ = "info";
};

// `text` without what may be a secret: keys and tokens that stores' URLs and errors are known to
// hold. For logs and errors that leave this host.
std::string without_secrets(std::string text);

}  // namespace leat
