// SPDX-License-Identifier: Apache-2.0
// Write patterns of a mount and of a disk: plain pwrite(2) loops that know nothing of what they
// write to.
//
//   `fuse_writer files FOLDER COUNT BYTES THREADS SEED END`.
//       Creates COUNT files, writes them in steps of 1 MiB, closes them. END `sync` adds an fsync
//       before the close. END `publish` writes NUMBER.part with fsync, and renames it. END `close`
//       adds nothing.
//
//   `fuse_writer random FOLDER BYTES WRITES SEED`.
//       One file is written. Then come WRITES of 4 KiB at random, which alone are timed. The file
//       is closed afterwards.
//
//   `fuse_writer paced FOLDER BYTES BYTES_PER_S SEED`.
//       One file after another at most so fast, until standard input ends. Also prints `files`.
//
//   `fuse_writer check FOLDER COUNT BYTES SEED`.
//       Compares every byte of what `files` and `paced` wrote.
//
// Files are named 0, 1 … below FOLDER and have BYTES each. Content comes from SEED, number of the
// file and offset alone. Prints one JSON line.
#include "reader.h"

#include <poll.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

namespace {

using reader::fail;
using reader::kStepBytes;
using reader::mixed;
using reader::seconds_of;

constexpr uint64_t kPageBytes = 4096;

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "fuse_writer: %s\n", what.c_str());
  std::exit(2);
}

// The content of files: a random MiB over and over. Each page begins with 8 bytes that only the
// page of that file and offset has.
class Content {
 public:
  explicit Content(uint64_t seed)
      : seed_(seed), memory_(std::make_unique_for_overwrite<char[]>(kStepBytes)) {
    for (size_t at = 0; at < kStepBytes; at += sizeof(uint64_t)) put(at, mixed(~seed + at));
  }

  // The bytes of file `number` from `offset` on, which is a multiple of a page; valid until the
  // next call. At most kStepBytes.
  std::span<const char> at(uint64_t number, uint64_t offset, size_t bytes) {
    for (size_t page = 0; page < bytes; page += kPageBytes) {
      put(page, mixed(mixed(seed_ + number) ^ (offset + page)));
    }
    return {memory_.get(), bytes};
  }

 private:
  void put(size_t at, uint64_t value) { std::memcpy(memory_.get() + at, &value, sizeof value); }

  uint64_t seed_;
  std::unique_ptr<char[]> memory_;
};

class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail("create " + path);
  }
  ~NewFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::span<const char> bytes, uint64_t offset) const {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n <= 0) fail("write " + path_);
      bytes = bytes.subspan(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
  }
  void sync() const {
    if (::fsync(fd_) != 0) fail("fsync " + path_);
  }
  void close() {
    if (::close(std::exchange(fd_, -1)) != 0) fail("close " + path_);
  }

 private:
  std::string path_;
  int fd_;
};

std::string path_of(const std::string& folder, uint64_t number) {
  return folder + "/" + std::to_string(number);
}

// Calls `step(offset, bytes)` for each step of a file.
template <class Step>
void in_steps(uint64_t bytes, const Step& step) {
  for (uint64_t at = 0; at < bytes; at += kStepBytes) {
    step(at, static_cast<size_t>(std::min<uint64_t>(kStepBytes, bytes - at)));
  }
}

void write_file(const std::string& path, uint64_t number, uint64_t bytes, std::string_view end,
                Content& content) {
  const std::string written = end == "publish" ? path + ".part" : path;
  NewFile file(written);
  in_steps(bytes, [&](uint64_t at, size_t step) { file.write(content.at(number, at, step), at); });
  if (end != "close") file.sync();
  file.close();
  if (end == "publish" && ::rename(written.c_str(), path.c_str()) != 0) fail("rename " + written);
}

void write_files(const std::string& folder, uint64_t count, uint64_t bytes, size_t threads,
                 uint64_t seed, const std::string& end) {
  if (end != "close" && end != "sync" && end != "publish") refuse("no end " + end);
  std::vector<Content> contents;
  for (size_t thread = 0; thread < threads; ++thread) contents.emplace_back(seed);
  const double seconds = seconds_of([&] {
    reader::on_threads(threads, [&](size_t thread) {
      for (uint64_t i = thread; i < count; i += threads) {
        write_file(path_of(folder, i), i, bytes, end, contents[thread]);
      }
      return uint64_t{0};
    });
  });
  reader::report(count * bytes, seconds);
}

void write_random(const std::string& folder, uint64_t bytes, uint64_t writes, uint64_t seed) {
  Content content(seed), later(seed + 1);
  NewFile file(path_of(folder, 0));
  in_steps(bytes, [&](uint64_t at, size_t step) { file.write(content.at(0, at, step), at); });
  ::sync();  // not fsync, which a mount may answer by an upload
  const double seconds = seconds_of([&] {
    for (uint64_t i = 0; i < writes; ++i) {
      const uint64_t at = mixed(seed + i) % (bytes / kPageBytes) * kPageBytes;
      file.write(later.at(i, at, kPageBytes), at);
    }
  });
  file.close();
  reader::report(writes * kPageBytes, seconds);
}

bool input_ended() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&input, 1, 0) > 0;
}

// A step that is due later waits; one that is late waits for nothing.
void write_paced(const std::string& folder, uint64_t bytes, double bytes_per_s, uint64_t seed) {
  Content content(seed);
  uint64_t files = 0, done = 0;
  const auto began = std::chrono::steady_clock::now();
  const double seconds = seconds_of([&] {
    for (; !input_ended(); ++files) {
      NewFile file(path_of(folder, files));
      in_steps(bytes, [&](uint64_t at, size_t step) {
        const std::chrono::duration<double> due(static_cast<double>(done) / bytes_per_s);
        std::this_thread::sleep_until(
            began + std::chrono::duration_cast<std::chrono::steady_clock::duration>(due));
        file.write(content.at(files, at, step), at);
        done += step;
      });
      file.close();
    }
  });
  reader::more = ", \"files\": " + std::to_string(files);
  reader::report(done, seconds);
}

void check(const std::string& folder, uint64_t count, uint64_t bytes, uint64_t seed) {
  Content content(seed);
  const auto found = std::make_unique_for_overwrite<char[]>(kStepBytes);
  const double seconds = seconds_of([&] {
    for (uint64_t i = 0; i < count; ++i) {
      const std::string path = path_of(folder, i);
      const reader::File file(path);
      if (file.size() != bytes) refuse(path + " has " + std::to_string(file.size()) + " bytes");
      in_steps(bytes, [&](uint64_t at, size_t step) {
        const std::span<const char> expected = content.at(i, at, step);
        const bool equal = file.read(found.get(), step, at) == step &&
                           std::memcmp(found.get(), expected.data(), step) == 0;
        if (!equal) refuse(path + " differs in the MiB at " + std::to_string(at));
      });
    }
  });
  reader::report(count * bytes, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto number = [&](size_t index) { return std::stoull(words.at(index)); };
  const std::string& mode = words.at(0);
  const std::string& folder = words.at(1);
  if (mode == "files") {
    write_files(folder, number(2), number(3), number(4), number(5), words.at(6));
  } else if (mode == "random") {
    write_random(folder, number(2), number(3), number(4));
  } else if (mode == "paced") {
    write_paced(folder, number(2), static_cast<double>(number(3)), number(4));
  } else if (mode == "check") {
    check(folder, number(2), number(3), number(4));
  } else {
    refuse("no mode " + mode);
  }
}
