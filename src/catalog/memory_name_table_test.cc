// SPDX-License-Identifier: Apache-2.0
#include "catalog/memory_name_table.h"

#include <gtest/gtest.h>

#include <utility>

namespace leat {
namespace {

std::string example_for(std::string key) {
  NameTableBuilder builder({}, "d/", nullptr);
  ListPage page;
  page.objects.push_back({.key = std::move(key), .version = {}, .mtime = {}});
  builder.add_page(page);
  EXPECT_EQ(builder.skipped().count, 1u);
  return builder.skipped().example;
}

TEST(HiddenNamesTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(example_for("d/\x01/\x7f~ "), "d/\\x01/\\x7f~ ");
}

TEST(HiddenNamesTest, AnExampleEndsAfterEightyBytes) {
  const std::string eighty = "d/a/" + std::string(76, 'k');
  EXPECT_EQ(example_for(eighty), eighty);
  EXPECT_EQ(example_for(eighty + "k"), eighty + "…");
}

}  // namespace
}  // namespace leat
