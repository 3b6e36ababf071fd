// SPDX-License-Identifier: Apache-2.0
// What somebody probably meant: the known word closest to a mistyped one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace leat {

// Fewest insertions, deletions, replacements and swaps of neighbours that turn one into the other
// (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate closest to `word`, upper and lower case, '-' and '_' taken as equal; the first of
// several. Nothing when all are too far away to be what was meant.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

// "; did you mean 'X'?", or empty. To put behind an error about an unknown word.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace leat
