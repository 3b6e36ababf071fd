// SPDX-License-Identifier: Apache-2.0
// Damage to the files of a cache directory: bits flip; files are cut, grow, are swapped,
// overwritten, emptied, removed. No wrong byte is served or passed to the kernel; lost bytes can be
// written again. If the directory is rejected, the message says what to do.
//
// LEAT_TORTURE_DAMAGES: rounds. LEAT_TORTURE_SEED: repeats a run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/read_file.h"
#include "cache/torture/working_set_test.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

class Damager {
 public:
  Damager(std::string directory, Chance& chance)
      : directory_(std::move(directory)), chance_(chance) {
    for (const auto& item : fs::recursive_directory_iterator(directory_)) {
      if (item.is_regular_file() && item.path().filename() != "lock") {
        files_.push_back(item.path());
      }
    }
    std::ranges::sort(files_);
  }

  // Returns a description of the damage.
  std::string once() {
    // Data files are many and large; every kind of file has its turn.
    static constexpr const char* kKinds[] = {".data", ".meta", ".index", "superblock"};
    const std::string kind = kKinds[chance_.below(chance_.one_in(6) ? 4 : 3)];
    const std::string file = pick(kind);
    switch (chance_.below(9)) {
      case 0:
      case 1:
        change(file, [&](std::string& bytes) {
          for (uint64_t i = 0, times = 1 + chance_.below(3); i < times && !bytes.empty(); ++i) {
            bytes[chance_.below(bytes.size())] ^= static_cast<char>(1 << chance_.below(8));
          }
        });
        return "bits of " + file;
      case 2:
        change(file, [&](std::string& bytes) {
          const uint64_t at = chance_.below(bytes.size() + 1) / 512 * 512;
          const char with = static_cast<char>(chance_.one_in(2) ? 0 : chance_.seed());
          for (uint64_t i = at; i < std::min<uint64_t>(bytes.size(), at + 512); ++i)
            bytes[i] = with;
        });
        return "a sector of " + file;
      case 3:
        change(file, [&](std::string& bytes) { bytes.resize(chance_.below(bytes.size() + 1)); });
        return "cut " + file;
      case 4:
        change(file, [&](std::string& bytes) {
          bytes += std::string(1 + chance_.below(9000), static_cast<char>(chance_.seed()));
        });
        return "grown " + file;
      case 5: {
        const std::string other = chance_.one_in(4) ? pick(kKinds[chance_.below(3)]) : pick(kind);
        if (other == file) return "nothing";
        fs::rename(file, file + ".x");
        fs::rename(other, file);
        fs::rename(file + ".x", other);
        return fmt::format("swapped {} and {}", file, other);
      }
      case 6: {
        const std::string other = pick(kind);
        if (other == file) return "nothing";
        fs::copy_file(file, other, fs::copy_options::overwrite_existing);
        return fmt::format("copied {} over {}", file, other);
      }
      case 7:
        change(file, [&](std::string& bytes) { bytes.clear(); });
        return "emptied " + file;
      default:
        fs::remove(file);
        std::erase(files_, file);
        return "removed " + file;
    }
  }

 private:
  std::string pick(const std::string& kind) {
    std::vector<std::string> fitting;
    for (const std::string& file : files_) {
      if (file.ends_with(kind)) fitting.push_back(file);
    }
    return fitting.empty() ? files_[chance_.below(files_.size())]
                           : fitting[chance_.below(fitting.size())];
  }
  template <class F>
  static void change(const std::string& path, F how) {
    std::string bytes = *read_file(path);
    how(bytes);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  const std::string directory_;
  Chance& chance_;
  std::vector<std::string> files_;
};

class Damage : public testing::Test {
 protected:
  // Two directories of one life: after a kill, after a close.
  Damage() {
    TestStore store(TestStore::options(directory_.path()));
    for (size_t number = 0; number < set_.size(); ++number) {
      const FileRefPtr& ref = set_.at(number);
      EXPECT_TRUE(number % 5 == 0 && !WorkingSet::is_small(*ref)
                      ? store.write_range(ref, {kBlockBytes, kBlockBytes})
                      : store.write_whole(ref));
      if (number % 7 == 3) store->drop(set_.at(number - 1)->id);
    }
    EXPECT_TRUE(store.flush());
    killed_ = crash_copy(directory_.path());
    store.close();
  }

  void one(Chance& chance) {
    const bool in_order = chance.one_in(3);
    auto copy = crash_copy(in_order ? directory_.path() : killed_->path());
    Damager damager(copy->path(), chance);
    std::string done;
    for (uint64_t i = 0, times = 1 + chance.below(4); i < times; ++i) {
      done += "\n  " + damager.once();
    }
    SCOPED_TRACE(testing::Message() << (in_order ? "in order" : "killed") << done);
    {
      TestStore store(TestStore::options(copy->path()));
      if (!store.ok()) {
        ++refused_;
        expect_says_what_to_do(store.failure(), copy->path());
        return;
      }
      look(store);
      bring_again(store);
      store.close();
    }
    TestStore store(TestStore::options(copy->path()));
    ASSERT_TRUE(store.ok()) << store.failure().to_string();
    for (size_t number = 0; number < set_.size(); ++number) {
      EXPECT_TRUE(expect_right_or_missing(store, set_.at(number))) << set_.at(number)->key;
    }
  }

  static void expect_says_what_to_do(const Status& failure, const std::string& directory) {
    const std::string text = failure.to_string();
    EXPECT_NE(text.find(directory), std::string::npos) << text;
    const bool helps = text.find("remove the directory") != std::string::npos ||
                       text.find("give --cache-dir") != std::string::npos;
    EXPECT_TRUE(helps) << text;
  }

  void look(TestStore& store) {
    for (size_t number = 0; number < set_.size(); ++number) {
      const FileRefPtr& ref = set_.at(number);
      expect_right_or_missing(store, ref);
      ++checked_;
    }
  }

  void bring_again(TestStore& store) {
    for (size_t number = 0; number < set_.size(); ++number) {
      EXPECT_TRUE(store.write_whole(set_.at(number)));
      EXPECT_TRUE(store.holds(set_.at(number))) << set_.at(number)->key;
    }
    EXPECT_TRUE(store.flush());
  }

  const WorkingSet set_{24};
  TempDirectory directory_;
  std::unique_ptr<TempDirectory> killed_;
  uint64_t refused_ = 0, checked_ = 0;
};

TEST_F(Damage, IsNeverServedAndHeals) {
  const uint64_t seed = torture_seed(), rounds = from_environment("LEAT_TORTURE_DAMAGES", 15);
  SCOPED_TRACE(testing::Message() << "LEAT_TORTURE_SEED=" << seed);
  Chance chance(seed);
  for (uint64_t round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    one(chance);
  }
  fmt::print("damages: {} rounds, {} refused, compared {} objects\n", rounds, refused_, checked_);
}

}  // namespace
}  // namespace leat
