// SPDX-License-Identifier: Apache-2.0
#include "cache/descriptor_pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace leat {
namespace {

struct Named : Openable {
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
  std::shared_ptr<Openable> adopted() {
    auto object = std::allocate_shared<Named>(Counting<Named>(&in_memory));
    pool.adopt(object, std::make_shared<FilePair>());
    return object;
  }

  size_t in_memory = 0;
  DescriptorPool pool{"/none", nullptr, 4096};
};

TEST_F(DescriptorPoolTest, GivesTheMemoryOfObjectsBackThatAreGone) {
  const std::shared_ptr<Openable> kept = adopted();
  for (int i = 0; i < 3000; ++i) adopted();
  EXPECT_LE(in_memory, 65U);
  EXPECT_NE(kept->opened(), nullptr);
}

TEST_F(DescriptorPoolTest, ClosesWhatWasNotUsedLately) {
  std::vector<std::shared_ptr<Openable>> objects;
  for (int i = 0; i < 4097; ++i) objects.push_back(adopted());
  EXPECT_EQ(objects[0]->opened(), nullptr);
  EXPECT_NE(objects[1]->opened(), nullptr);
  objects.push_back(adopted());  // passes over the object just used
  EXPECT_NE(objects[1]->opened(), nullptr);
  EXPECT_EQ(objects[2]->opened(), nullptr);
}

}  // namespace
}  // namespace leat
