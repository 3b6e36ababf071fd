// SPDX-License-Identifier: Apache-2.0
#include "peer/invalidation/invalidation_batch.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using Kind = Invalidation::Kind;

Invalidation object(std::string key) {
  return {"/m", std::move(key), Kind::kObject};
}
Invalidation directory(std::string key) {
  return {"/m", std::move(key), Kind::kDirectory};
}
const Invalidation kAnything{"/", "", Kind::kAll};

TEST(InvalidationBatch, FewAreNamedAsTheyAre) {
  InvalidationBatch gathered(3);
  const std::vector few = {object("d/a"), directory("e/"), object("b")};
  for (const Invalidation& change : few) gathered.add(change);
  EXPECT_EQ(gathered.take(), few);
  EXPECT_TRUE(gathered.take().empty());
}

TEST(InvalidationBatch, OfManyTheDirectoriesAreNamed) {
  InvalidationBatch gathered(3);
  for (int i = 0; i < 1000; ++i) {
    gathered.add(object("d/" + std::to_string(i)));
    gathered.add(object(std::to_string(i)));
  }
  gathered.add(directory("d/"));
  gathered.add(object("d/e/"));  // a directory as a name in d
  EXPECT_EQ(gathered.take(), (std::vector{directory("d/"), directory("")}));
  gathered.add(object("d/a"));
  EXPECT_EQ(gathered.take(), std::vector{object("d/a")}) << "the next time begins anew";
}

TEST(InvalidationBatch, OfOneMountIsNotOfAnother) {
  InvalidationBatch gathered(2);
  for (const char* mount : {"/m", "/n"}) {
    for (const char* key : {"d/a", "d/b"}) gathered.add({mount, key, Kind::kObject});
  }
  EXPECT_EQ(gathered.take(), (std::vector<Invalidation>{{"/m", "d/", Kind::kDirectory},
                                                        {"/n", "d/", Kind::kDirectory}}));
}

TEST(InvalidationBatch, OfTooManyDirectoriesNothingIsNamed) {
  InvalidationBatch gathered(3);
  for (int i = 0; i < 10; ++i) gathered.add(object(std::to_string(i) + "/a"));
  EXPECT_EQ(gathered.take(), std::vector{kAnything});
  gathered.add(object("d/a"));
  EXPECT_EQ(gathered.take(), std::vector{object("d/a")});
}

TEST(InvalidationBatch, AWholeMountStaysOne) {
  InvalidationBatch gathered(2);
  gathered.add({"/m", "", Kind::kAll});
  for (const char* key : {"d/a", "d/b", "d/c"}) gathered.add(object(key));
  EXPECT_EQ(gathered.take(), (std::vector<Invalidation>{{"/m", "", Kind::kAll}, directory("d/")}));
}

}  // namespace
}  // namespace leat
