// SPDX-License-Identifier: Apache-2.0
// LogFile: a log file with a maximum size. When it is full, its content is copied to "FILE.1",
// which is overwritten, and the file is truncated. Both together take at most twice the size.
//
// The inode stays the same, since other processes append to it, too. These are the supervisor, a
// daemon that takes over, and writers to the daemon's standard error. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace leat::log {

// Sets the maximum size of all log files of the process, from now on. 0: unlimited.
void set_file_size_max(uint64_t bytes);

// Returns the path of the rotated part of the log in `file`.
std::string rotated_path(const std::string& file);

class LogFile {
 public:
  // Appends to `path`; creates it with mode 0600. If it cannot be opened or written, the text is
  // lost.
  explicit LogFile(std::string path);
  ~LogFile();
  LogFile(const LogFile&) = delete;

  void write(std::string_view text);

 private:
  void rotate_if_full(size_t bytes);

  const std::string path_;
  const int fd_;
};

}  // namespace leat::log
