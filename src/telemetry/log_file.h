// SPDX-License-Identifier: Apache-2.0
// LogFile: a log in a file that stays below a size. What is in it then moves into "FILE.1", in
// place of what was there, and the file begins again, so that both together are at most twice the
// size.
//
// The file stays the same one, since other processes append to it, too: the supervisor, a daemon
// that takes over, and whatever writes to the daemon's standard error. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace leat::log {

// For all of the process, from now on. 0: no bound.
void set_file_size_max(uint64_t bytes);

// Where the older part of the log in `file` is.
std::string older_part(const std::string& file);

class LogFile {
 public:
  // Appends to `path`; makes it with mode 0600. What cannot be opened or written is lost.
  explicit LogFile(std::string path);
  ~LogFile();
  LogFile(const LogFile&) = delete;

  void write(std::string_view text);

 private:
  void make_room(size_t bytes);

  const std::string path_;
  const int fd_;
};

}  // namespace leat::log
