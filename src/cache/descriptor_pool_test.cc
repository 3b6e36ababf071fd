// SPDX-License-Identifier: Apache-2.0
#include "cache/descriptor_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <vector>

namespace leat {
namespace {

struct Named : FdOwner {
  std::string data_name() const override { return "a.data"; }
  std::string side_name() const override { return "a.index"; }
};

// Counts allocations that are not freed.
template <typename T>
struct Counting {
  using value_type = T;

  explicit Counting(size_t* count) : out(count) {}
  template <typename U>
  explicit Counting(const Counting<U>& other) : out(other.out) {}

  T* allocate(size_t n) {
    ++*out;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* place, size_t n) {
    --*out;
    std::allocator<T>().deallocate(place, n);
  }
  bool operator==(const Counting&) const = default;

  size_t* out;
};

class DescriptorPoolTest : public testing::Test {
 protected:
  std::shared_ptr<FdOwner> adopted() {
    auto object = std::allocate_shared<Named>(Counting<Named>(&in_memory));
    pool.adopt(object, std::make_shared<FilePair>());
    return object;
  }

  size_t in_memory = 0;
  static constexpr int kObjectsMax = 100;
  DescriptorPool pool{"/none", nullptr, kObjectsMax};
};

TEST_F(DescriptorPoolTest, GivesTheMemoryOfObjectsBackThatAreGone) {
  const std::shared_ptr<FdOwner> kept = adopted();
  for (int i = 0; i < 3000; ++i) adopted();
  EXPECT_LE(in_memory, 65U);
  EXPECT_NE(kept->open_files(), nullptr);
}

TEST_F(DescriptorPoolTest, ClosesWhatWasNotUsedLately) {
  std::vector<std::shared_ptr<FdOwner>> objects;
  for (int i = 0; i <= kObjectsMax; ++i) objects.push_back(adopted());
  EXPECT_EQ(objects[0]->open_files(), nullptr);
  EXPECT_NE(objects[1]->open_files(), nullptr);
  objects.push_back(adopted());  // passes over the object just used
  EXPECT_NE(objects[1]->open_files(), nullptr);
  EXPECT_EQ(objects[2]->open_files(), nullptr);
}

// A part of what the process may open is left to others, and two pools share the rest.
TEST_F(DescriptorPoolTest, KeepsWithinTheLimitOfTheProcess) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit small{.rlim_cur = 128, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
  auto open_of_200 = [this] {
    std::vector<std::shared_ptr<FdOwner>> objects;
    for (int i = 0; i < 200; ++i) objects.push_back(adopted());
    return std::ranges::count_if(objects, [](auto& one) { return one->open_files() != nullptr; });
  };
  EXPECT_EQ(open_of_200(), 32);
  {
    const DescriptorPool another("/none", nullptr, kObjectsMax);
    EXPECT_EQ(open_of_200(), 16);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(open_of_200(), kObjectsMax);
}

}  // namespace
}  // namespace leat
