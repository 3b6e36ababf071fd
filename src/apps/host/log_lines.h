// SPDX-License-Identifier: Apache-2.0
// The daemon's log, read back: "TIME LEVEL TEXT" a line, or an object with time, level and message
// (log.format).
#pragma once

#include <functional>
#include <istream>
#include <string>

namespace leat {

struct LogLine {
  std::string time{};   // empty: it goes on with the line before
  std::string level{};  // "debug", "info", "warning", "error"
  std::string text{};
};

LogLine parse_log_line(const std::string& line);
// Whether it is of `level` or graver; what goes on with a line is as that line.
bool is_wanted(const LogLine& line, const std::string& level);

// Whole lines of a file that grows: the end of one that is just being written waits for its rest.
class LogReader {
 public:
  void read(std::istream& file, const std::function<void(LogLine)>& take);

 private:
  std::string rest_;
  std::string level_ = "info";
};

// `text` without what may be a secret: keys and tokens that stores' URLs and errors are known to
// hold. For logs and errors that leave this host.
std::string without_secrets(std::string text);

}  // namespace leat
