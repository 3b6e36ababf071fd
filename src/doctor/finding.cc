// SPDX-License-Identifier: Apache-2.0
#include "doctor/finding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/text_table.h"

namespace leat {
namespace {

std::string amount(size_t number, std::string_view noun) {
  if (number == 0) return fmt::format("no {}s", noun);
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace

void append(Findings& findings, Findings more) {
  findings.insert(findings.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
}

size_t count(const Findings& findings, Level level) {
  return static_cast<size_t>(std::ranges::count(findings, level, &Finding::level));
}

std::string to_text(const Findings& findings) {
  TextTable table("lll");
  for (const Finding& finding : findings) {
    const std::string subject = finding.subject.empty() ? "" : finding.subject + ": ";
    table.add({std::string(to_string(finding.level)), finding.name, subject + finding.what});
    if (!finding.cost.empty()) table.add({"", "", "  costs: " + finding.cost});
    if (!finding.action.empty()) table.add({"", "", "  to do: " + finding.action});
  }
  return fmt::format("{}\n\n{}, {}", table.to_string(),
                     amount(count(findings, Level::kProblem), "problem"),
                     amount(count(findings, Level::kNote), "note"));
}

std::string problems_in_words(const Findings& findings) {
  std::vector<std::string> names;
  for (const Finding& finding : findings) {
    if (finding.level == Level::kProblem) names.push_back(finding.name);
  }
  if (names.empty()) return "";
  return fmt::format("{}: {}", amount(names.size(), "problem"), fmt::join(names, ", "));
}

}  // namespace leat
