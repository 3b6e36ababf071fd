// SPDX-License-Identifier: Apache-2.0
#include "cluster/lost_cache.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

WorkerId id(uint8_t number) {
  Id128 id;
  id.bytes[0] = number;
  return WorkerId(id);
}

TEST(LostCache, NewIdentityAtKnownAddressIsDetected) {
  ClusterView view{.revision = 7, .ring = Ring(3, {{id(1), 1}, {id(2), 1}})};
  view.ring_addresses = {{id(1), "a:1"}, {id(2), "b:1"}};
  const auto before = [&](uint8_t number, const char* address) {
    return previous_worker(view, {.id = id(number), .address = address});
  };
  EXPECT_EQ(before(9, "a:1"), id(1)) << "its lease has ended";
  EXPECT_FALSE(before(1, "a:1")) << "it is the one that was there";
  EXPECT_FALSE(before(2, "a:1")) << "two that are known have changed places";
  EXPECT_FALSE(before(9, "c:1")) << "a new one at a new place";
  view.workers[id(1)] = {.id = id(1), .address = "d:1"};
  EXPECT_FALSE(before(9, "a:1")) << "the one that was there is elsewhere";
  view.workers[id(2)] = {.id = id(2), .address = "b:1"};
  EXPECT_EQ(before(9, "b:1"), id(2)) << "its lease still stands";
}

}  // namespace
}  // namespace leat
