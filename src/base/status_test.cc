// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

Status unavailable(std::string message) {
  return {StatusCode::kUnavailable, std::move(message)};
}

TEST(Status, ACauseIsSaidOnce) {
  const Status refused = unavailable("connection refused");
  EXPECT_EQ(refused.with_context("cannot read k").with_context("cannot load k").to_string(),
            "cannot load k: cannot read k: connection refused");
  EXPECT_EQ(refused.with_context("cannot read k: connection refused").to_string(),
            "cannot read k: connection refused");
  EXPECT_EQ(
      refused.with_context("connection refused").with_context("connection refused").to_string(),
      "connection refused");
  EXPECT_EQ(refused.with_context("w1: connection refused; w2 is gone").to_string(),
            "w1: connection refused; w2 is gone");
}

TEST(Status, ACauseThatIsAPartOfAnotherSentenceIsSaid) {
  EXPECT_EQ(unavailable("no room").with_context("there is no room").to_string(),
            "there is no room: no room");
  EXPECT_EQ(unavailable("refused").with_context("connection refused").to_string(),
            "connection refused: refused");
}

}  // namespace
}  // namespace leat
