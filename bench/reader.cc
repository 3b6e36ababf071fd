// SPDX-License-Identifier: Apache-2.0
// The reading side of the benchmarks: plain pread(2) loops that know nothing of what they read
// from, so that a mount and a disk are read in exactly the same way.
//
//   reader sequential FILE                reads FILE once in 1 MiB steps
//   reader files FOLDER LIST THREADS [PASSES]
//                                         opens, reads and closes each name of LIST below FOLDER
//   reader compare A B [LIST]             bytes of two files, or of LIST below two folders
// Prints one JSON line.
#include "reader.h"

#include <fstream>

namespace {

using reader::fail;
using reader::File;
using reader::kStepBytes;

uint64_t read_whole(const std::string& path, char* buffer) {
  const File file(path);
  uint64_t total = 0;
  while (const size_t n = file.read(buffer, kStepBytes, total)) {
    total += n;
    if (n < kStepBytes) break;
  }
  return total;
}

std::vector<std::string> read_list(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) fail("open " + path);
  std::vector<std::string> names;
  for (std::string line; std::getline(stream, line);) names.push_back(line);
  return names;
}

uint64_t read_files(const std::string& folder, const std::vector<std::string>& names,
                    size_t threads, size_t passes) {
  return reader::on_threads(threads, [&](size_t thread) {
    const auto buffer = std::make_unique<char[]>(kStepBytes);
    uint64_t total = 0;
    for (size_t pass = 0; pass < passes; ++pass) {
      for (size_t i = thread; i < names.size(); i += threads) {
        total += read_whole(folder + "/" + names[i], buffer.get());
      }
    }
    return total;
  });
}

uint64_t compare(const std::string& a, const std::string& b) {
  const File left(a), right(b);
  const auto buffers = std::make_unique<char[]>(2 * kStepBytes);
  char* const mine = buffers.get();
  char* const theirs = mine + kStepBytes;
  uint64_t total = 0;
  for (;;) {
    const size_t n = left.read(mine, kStepBytes, total);
    if (right.read(theirs, kStepBytes, total) != n || std::memcmp(mine, theirs, n) != 0) {
      std::fprintf(stderr, "reader: %s and %s differ in the MiB at %llu\n", a.c_str(), b.c_str(),
                   static_cast<unsigned long long>(total));
      std::exit(2);
    }
    total += n;
    if (n < kStepBytes) return total;
  }
}

uint64_t run(const std::vector<std::string>& words) {
  const std::string& mode = words.at(0);
  if (mode == "sequential") {
    const auto buffer = std::make_unique<char[]>(kStepBytes);
    return read_whole(words.at(1), buffer.get());
  }
  if (mode == "files") {
    const size_t passes = words.size() > 4 ? std::stoul(words[4]) : 1;
    return read_files(words.at(1), read_list(words.at(2)), std::stoul(words.at(3)), passes);
  }
  if (words.size() == 3) return compare(words[1], words[2]);
  uint64_t total = 0;
  for (const auto& name : read_list(words.at(3))) {
    total += compare(words.at(1) + "/" + name, words.at(2) + "/" + name);
  }
  return total;
}

}  // namespace

int main(int argc, char** argv) {
  return reader::measured([&] { return run({argv + 1, argv + argc}); });
}
