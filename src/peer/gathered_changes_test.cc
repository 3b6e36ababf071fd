// SPDX-License-Identifier: Apache-2.0
#include "peer/gathered_changes.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

using Kind = PeerChange::Kind;

PeerChange object(std::string key) {
  return {"/m", std::move(key), Kind::kObject};
}
PeerChange directory(std::string key) {
  return {"/m", std::move(key), Kind::kDirectory};
}
const PeerChange kAnything{"/", "", Kind::kAll};

TEST(GatheredChanges, FewAreNamedAsTheyAre) {
  GatheredChanges gathered(3);
  const std::vector few = {object("d/a"), directory("e/"), object("b")};
  for (const PeerChange& change : few) gathered.add(change);
  EXPECT_EQ(gathered.take(), few);
  EXPECT_TRUE(gathered.take().empty());
}

TEST(GatheredChanges, OfManyTheDirectoriesAreNamed) {
  GatheredChanges gathered(3);
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

TEST(GatheredChanges, OfOneMountIsNotOfAnother) {
  GatheredChanges gathered(2);
  for (const char* mount : {"/m", "/n"}) {
    for (const char* key : {"d/a", "d/b"}) gathered.add({mount, key, Kind::kObject});
  }
  EXPECT_EQ(gathered.take(), (std::vector<PeerChange>{{"/m", "d/", Kind::kDirectory},
                                                      {"/n", "d/", Kind::kDirectory}}));
}

TEST(GatheredChanges, OfTooManyDirectoriesNothingIsNamed) {
  GatheredChanges gathered(3);
  for (int i = 0; i < 10; ++i) gathered.add(object(std::to_string(i) + "/a"));
  EXPECT_EQ(gathered.take(), std::vector{kAnything});
  gathered.add(object("d/a"));
  EXPECT_EQ(gathered.take(), std::vector{object("d/a")});
}

TEST(GatheredChanges, AWholeMountStaysOne) {
  GatheredChanges gathered(2);
  gathered.add({"/m", "", Kind::kAll});
  for (const char* key : {"d/a", "d/b", "d/c"}) gathered.add(object(key));
  EXPECT_EQ(gathered.take(), (std::vector<PeerChange>{{"/m", "", Kind::kAll}, directory("d/")}));
}

}  // namespace
}  // namespace leat
