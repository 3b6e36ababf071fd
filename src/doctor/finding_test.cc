// SPDX-License-Identifier: Apache-2.0
#include "doctor/finding.h"

#include <gtest/gtest.h>

namespace leat {
namespace {

const Findings kFindings = {
    {.name = "fuse.device", .what = "/dev/fuse can be opened"},
    {.level = Level::kNote,
     .name = "kernel.read_ahead",
     .what = "stays",
     .cost = "requests",
     .action = "echo 1024"},
    {.level = Level::kProblem, .name = "folder.dead", .subject = "/mnt/a\nb", .what = "is gone"},
};

TEST(Finding, TextIsOnePageWithWhatItCostsAndWhatToDo) {
  EXPECT_EQ(to_text(kFindings),
            "ok       fuse.device        /dev/fuse can be opened\n"
            "note     kernel.read_ahead  stays\n"
            "                              costs: requests\n"
            "                              to do: echo 1024\n"
            "problem  folder.dead        /mnt/a?b: is gone\n"
            "\n"
            "1 problem, 1 note");
  EXPECT_EQ(to_text({kFindings[0]}),
            "ok  fuse.device  /dev/fuse can be opened\n\nno problems, no notes");
}

TEST(Finding, JsonHasEveryMember) {
  EXPECT_EQ(dump_json(to_json(kFindings[1])),
            R"({"action":"echo 1024","cost":"requests","level":"note",)"
            R"("name":"kernel.read_ahead","subject":"","what":"stays"})");
}

TEST(Finding, ProblemsAreNamed) {
  EXPECT_EQ(problems_in_words({kFindings[0], kFindings[1]}), "");
  EXPECT_EQ(problems_in_words(kFindings), "1 problem: folder.dead");
  EXPECT_EQ(problems_in_words({kFindings[2], kFindings[2]}),
            "2 problems: folder.dead, folder.dead");
}

}  // namespace
}  // namespace leat
