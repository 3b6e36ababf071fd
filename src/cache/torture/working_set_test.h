// SPDX-License-Identifier: Apache-2.0
// WorkingSet: objects and bytes computed from a number, so that right and wrong need no records.
// Chance: reproducible random numbers.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "base/hash.h"
#include "cache/store_fixture_test.h"

namespace leat {

// Reads a whole number from the environment, such as a count or a duration. `make soak` sets them.
inline uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}

// The seed of a run: set in the environment to repeat one.
inline uint64_t torture_seed() {
  return from_environment("LEAT_TORTURE_SEED", std::random_device{}());
}

class Chance {
 public:
  explicit Chance(uint64_t seed) : engine_(seed) {}
  uint64_t below(uint64_t end) { return end == 0 ? 0 : engine_() % end; }
  bool one_in(uint64_t times) { return below(times) == 0; }
  uint64_t seed() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

// Small and large objects, two versions of each key, in three pools.
class WorkingSet {
 public:
  explicit WorkingSet(size_t objects) {
    for (size_t number = 0; number < objects; ++number) refs_.push_back(make(number));
  }
  size_t size() const { return refs_.size(); }
  const FileRefPtr& at(size_t number) const { return refs_[number]; }
  static bool is_small(const FileRef& ref) { return ref.size < 128 * kKiB; }

 private:
  static FileRefPtr make(size_t number) {
    Chance chance(number);
    static constexpr uint64_t kSizes[] = {4 * kKiB,  40 * kKiB,  40 * kKiB,  60 * kKiB,
                                          60 * kKiB, 128 * kKiB, 400 * kKiB, 1200 * kKiB};
    const size_t kind = chance.below(std::size(kSizes));
    const uint64_t least = kind < 6 ? 1 : 128 * kKiB;
    const uint64_t size = least + chance.below(kSizes[kind] - least);
    FileRef ref = *object(fmt::format("set/{}", number / 2), size, fmt::format("{}", number % 2));
    ref.pool = PoolId{number % 3};
    return std::make_shared<const FileRef>(std::move(ref));
  }
  std::vector<FileRefPtr> refs_;
};

inline bool right(const FileRef& ref, ByteRange range, std::span<const std::byte> bytes) {
  return bytes.size() == range.size &&
         std::memcmp(content(ref, range).to_string().data(), bytes.data(), range.size) == 0;
}

// Checks the bytes that the kernel would give to programs.
inline void expect_right_through_kernel(const BackingFile& file, const FileRef& ref) {
  std::string bytes(ref.size, '\0');
  EXPECT_EQ(::pread(file.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()))
      << ref.key;
  EXPECT_TRUE(bytes == content(ref, {0, ref.size}).to_string())
      << "wrong bytes for the kernel of " << ref.key << " " << ref.id.to_hex();
}

// Checks every read path; returns whether all of the object is there.
inline bool expect_right_or_missing(TestStore& store, const FileRefPtr& ref) {
  const ByteRange whole{0, ref->size};
  if (auto backing = store->backing(*ref)) expect_right_through_kernel(*backing, *ref);
  if (auto hot = store->try_read(*ref, whole)) {
    EXPECT_TRUE(same(*hot, content(ref))) << "wrong bytes at once of " << ref->key;
  }
  auto code = store.read_fails(ref, whole);
  EXPECT_EQ(code.value_or(StatusCode::kNotFound), StatusCode::kNotFound) << ref->key;
  // Parts may be there without the whole. All are checked: a later writer relies on them.
  for (uint64_t at = 0; code && at < ref->size; at += kBlockBytes) {
    store.read_fails(ref, ByteRange{at, kBlockBytes}.clamp(ref->size));
  }
  if (auto hot = store->try_read(*ref, whole)) {
    EXPECT_TRUE(same(*hot, content(ref))) << "wrong bytes at once of " << ref->key;
  }
  if (auto backing = store->backing(*ref)) expect_right_through_kernel(*backing, *ref);
  return !code;
}

inline std::vector<std::string> stems(const std::string& folder, const std::string& suffix) {
  std::vector<std::string> names = files_ending(folder, suffix);
  for (std::string& name : names) name.resize(name.size() - suffix.size());
  return names;
}

// Expects that every file in the directory is half of a pair, once background changes are done: a
// start would remove any other.
inline void expect_only_pairs(const std::string& directory) {
  for (const auto& [first, second] : {std::pair{".data", ".meta"}, std::pair{".data", ".index"}}) {
    const std::string folder =
        directory + (std::string(second) == ".meta" ? "/files" : "/segments");
    if (!std::filesystem::exists(folder)) continue;
    auto only_pairs = [&] {
      size_t all = 0;
      for (const auto& item : std::filesystem::recursive_directory_iterator(folder)) {
        if (item.is_regular_file()) ++all;
      }
      const auto of_first = stems(folder, first), of_second = stems(folder, second);
      return of_first == of_second && all == 2 * of_first.size();
    };
    // Compaction and removals continue meanwhile: one check in which all are pairs is enough.
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    bool paired = only_pairs();
    while (!paired && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      paired = only_pairs();
    }
    if (paired) continue;
    std::string names;
    for (const auto& item : std::filesystem::recursive_directory_iterator(folder)) {
      names += " " + item.path().filename().string();
    }
    ADD_FAILURE() << "something else than pairs lies in " << folder << ":" << names;
  }
}

}  // namespace leat
