// SPDX-License-Identifier: Apache-2.0
// Access patterns of a mount beside those of reader.cc: plain pread(2),
// mmap(2) and readdir(3) loops that know nothing of what they read from.
//
//   fuse_reader random FILE BYTES THREADS READS SEED [GRAIN]
//       READS preads of BYTES at random, at multiples of GRAIN (else of BYTES)
//   fuse_reader mapped FILE READS SEED
//       READS pages of 4 KiB at random by mmap, one byte each
//   fuse_reader spread FILE BYTES THREADS
//       FILE once, in order: each thread takes the next BYTES
//   fuse_reader streams FILE STREAMS BYTES THREADS
//       FILE once, as STREAMS descriptors that each read a part of it in steps of BYTES, in turn
//   fuse_reader each FOLDER LIST FIRST COUNT
//       COUNT files of those in LIST (a name a line) from FIRST on, one after another, opened and
//       read; also prints p50_ms, p99_ms and max_ms of one
//   fuse_reader names FOLDER
//       readdir and stat of all below; `bytes` are names
// Threads of `random` share the reads; a seed gives the same offsets always. Prints one JSON line.
#include "reader.h"

#include <dirent.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <fstream>

namespace {

using reader::fail;
using reader::File;
using reader::mixed;

constexpr uint64_t kPageBytes = 4096;

uint64_t read_random(const std::string& path, size_t bytes, size_t threads, uint64_t reads,
                     uint64_t seed, uint64_t grain) {
  const File file(path);
  const uint64_t places = (file.size() - bytes) / grain + 1;
  return reader::on_threads(threads, [&](size_t thread) {
    const auto buffer = std::make_unique<char[]>(bytes);
    uint64_t total = 0;
    for (uint64_t i = thread; i < reads; i += threads) {
      total += file.read(buffer.get(), bytes, mixed(seed + i) % places * grain);
    }
    return total;
  });
}

uint64_t read_mapped(const std::string& path, uint64_t reads, uint64_t seed) {
  const File file(path);
  const uint64_t size = file.size();
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) fail("map " + path);
  for (uint64_t i = 0; i < reads; ++i) {
    const uint64_t page = mixed(seed + i) % (size / kPageBytes);
    [[maybe_unused]] const char byte = static_cast<const volatile char*>(memory)[page * kPageBytes];
  }
  return reads * kPageBytes;
}

uint64_t read_spread(const std::string& path, size_t bytes, size_t threads) {
  const File file(path);
  const uint64_t size = file.size();
  std::atomic<uint64_t> next = 0;
  return reader::on_threads(threads, [&](size_t) {
    const auto buffer = std::make_unique<char[]>(bytes);
    uint64_t total = 0;
    for (uint64_t at = next.fetch_add(bytes); at < size; at = next.fetch_add(bytes)) {
      total += file.read(buffer.get(), bytes, at);
    }
    return total;
  });
}

struct Stream {
  explicit Stream(const std::string& path) : file(path) {}
  File file;
  uint64_t at = 0, end = 0;
};

uint64_t read_streams(const std::string& path, size_t count, size_t bytes, size_t threads) {
  std::vector<std::unique_ptr<Stream>> streams;
  const uint64_t size = File(path).size();
  for (size_t i = 0; i < count; ++i) {
    streams.push_back(std::make_unique<Stream>(path));
    streams[i]->at = size * i / count;
    streams[i]->end = size * (i + 1) / count;
  }
  return reader::on_threads(threads, [&](size_t thread) {
    const auto buffer = std::make_unique<char[]>(bytes);
    uint64_t total = 0;
    for (bool more = true; more;) {
      more = false;
      for (size_t i = thread; i < count; i += threads) {
        Stream& stream = *streams[i];
        if (stream.at == stream.end) continue;
        const size_t step = std::min<uint64_t>(bytes, stream.end - stream.at);
        if (stream.file.read(buffer.get(), step, stream.at) != step) fail("short read of " + path);
        stream.at += step;
        total += step;
        more = true;
      }
    }
    return total;
  });
}

uint64_t read_each(const std::string& folder, const std::string& list, size_t first, size_t count) {
  std::ifstream lines(list);
  std::vector<std::string> names;
  for (std::string name; std::getline(lines, name);) names.push_back(folder + "/" + name);
  if (names.size() < first + count) fail("find so many names in " + list);
  std::vector<char> buffer(reader::kStepBytes);
  std::vector<double> took_ms;
  uint64_t total = 0;
  for (size_t i = first; i < first + count; ++i) {
    const auto started = std::chrono::steady_clock::now();
    const File file(names[i]);
    total += file.read(buffer.data(), buffer.size(), 0);
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - started;
    took_ms.push_back(took.count());
  }
  std::ranges::sort(took_ms);
  const auto at = [&](double share) {
    return std::to_string(took_ms[static_cast<size_t>(share * static_cast<double>(count - 1))]);
  };
  reader::more =
      ", \"p50_ms\": " + at(0.5) + ", \"p99_ms\": " + at(0.99) + ", \"max_ms\": " + at(1);
  return total;
}

uint64_t count_names(const std::string& folder) {
  DIR* const directory = ::opendir(folder.c_str());
  if (directory == nullptr) fail("open " + folder);
  uint64_t names = 0;
  errno = 0;
  while (const dirent* const entry = ::readdir(directory)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat found{};
    if (::fstatat(::dirfd(directory), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
      fail("stat " + folder + "/" + name);
    }
    names += 1;
    if (S_ISDIR(found.st_mode)) names += count_names(folder + "/" + name);
    errno = 0;
  }
  if (errno != 0) fail("list " + folder);
  ::closedir(directory);
  return names;
}

uint64_t run(const std::vector<std::string>& words) {
  const std::string& mode = words.at(0);
  const auto number = [&](size_t index) { return std::stoull(words.at(index)); };
  if (mode == "random") {
    const uint64_t grain = words.size() > 6 ? number(6) : number(2);
    return read_random(words.at(1), number(2), number(3), number(4), number(5), grain);
  }
  if (mode == "mapped") return read_mapped(words.at(1), number(2), number(3));
  if (mode == "spread") return read_spread(words.at(1), number(2), number(3));
  if (mode == "streams") return read_streams(words.at(1), number(2), number(3), number(4));
  if (mode == "each") return read_each(words.at(1), words.at(2), number(3), number(4));
  if (mode == "names") return count_names(words.at(1));
  std::fprintf(stderr, "fuse_reader: no mode %s\n", mode.c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  return reader::measured([&] { return run({argv + 1, argv + argc}); });
}
