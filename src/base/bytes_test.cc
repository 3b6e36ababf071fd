// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <gtest/gtest.h>

#include <cstring>

namespace leat {
namespace {

TEST(Bytes, PiecesReadAsOne) {
  Bytes bytes = Bytes::copy_of("hello ");
  bytes.append(Bytes::copy_of("wide "));
  bytes.append(Bytes());
  bytes.append(Bytes::copy_of("world"));
  EXPECT_EQ(bytes.size(), 16u);
  EXPECT_EQ(bytes.slices().size(), 3u);
  EXPECT_EQ(bytes.to_string(), "hello wide world");
}

TEST(Bytes, EverySubrangeIsTheStringsOwn) {
  const std::string whole = "abcdefghij";
  Bytes bytes = Bytes::of("abc");
  bytes.append(Bytes::copy_of("defg"));
  bytes.append(Bytes::copy_of("hij"));
  for (size_t from = 0; from <= whole.size(); ++from) {
    for (size_t size = 0; size <= whole.size() + 1; ++size) {
      EXPECT_EQ(bytes.sub(from, size).to_string(), whole.substr(from, size));
    }
  }
}

TEST(Bytes, OutliveTheBufferTheyCameFrom) {
  Bytes bytes;
  {
    Buffer buffer(3);
    std::memcpy(buffer.data(), "abc", 3);
    buffer.truncate(2);
    bytes = Bytes(std::move(buffer)).sub(1, 1);
  }
  EXPECT_EQ(bytes.to_string(), "b");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.slices()[0].data) % 4096, 1u);
}

}  // namespace
}  // namespace leat
