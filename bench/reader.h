// SPDX-License-Identifier: Apache-2.0
// Shared parts of the benchmarks' readers and writers: a file to pread(2) from, threads, numbers at
// random, and the JSON line with bytes, wall seconds and CPU seconds. A failure ends the program
// with its reason.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "clients/own_cpu.h"

namespace reader {

constexpr size_t kStepBytes = 1 << 20;

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "reader: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

class File {
 public:
  explicit File(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) fail("open " + path);
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Bytes read at `offset`; less than `bytes` only at the end of the file.
  size_t read(char* into, size_t bytes, uint64_t offset) const {
    size_t done = 0;
    while (done < bytes) {
      const ssize_t n = ::pread(fd_, into + done, bytes - done, static_cast<off_t>(offset + done));
      if (n < 0) fail("read " + path_);
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    return done;
  }

  uint64_t size() const {
    struct stat found{};
    if (::fstat(fd_, &found) != 0) fail("stat " + path_);
    return static_cast<uint64_t>(found.st_size);
  }
  int descriptor() const { return fd_; }

 private:
  std::string path_;
  int fd_;
};

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
inline uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Returns the sum of the results of `work(0)`, `work(1)` …, each on its own thread.
template <class Work>
uint64_t on_threads(size_t threads, const Work& work) {
  std::vector<uint64_t> totals(threads);
  std::vector<std::thread> pool;
  for (size_t thread = 0; thread < threads; ++thread) {
    pool.emplace_back([&, thread] { totals[thread] = work(thread); });
  }
  uint64_t total = 0;
  for (auto& thread : pool) thread.join();
  for (const uint64_t part : totals) total += part;
  return total;
}

// Further members of the line, each with a comma before it.
inline std::string more;

// Prints the line; the CPU seconds are those of the whole process.
inline void report(uint64_t bytes, double seconds) {
  std::printf("{\"bytes\": %llu, \"seconds\": %.6f, \"cpu_s\": %.6f%s}\n",
              static_cast<unsigned long long>(bytes), seconds, own_cpu_seconds(), more.c_str());
}

template <class Work>
double seconds_of(const Work& work) {
  const auto started = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;
  return wall.count();
}

// Runs `work`, which returns the bytes that it has read, and prints the line.
template <class Work>
int measured(const Work& work) {
  uint64_t bytes = 0;
  const double seconds = seconds_of([&] { bytes = work(); });
  report(bytes, seconds);
  return 0;
}

}  // namespace reader
