// SPDX-License-Identifier: Apache-2.0
// Suggestions for mistyped words: the known word closest to one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace leat {

// Returns the minimum number of insertions, deletions, replacements and swaps of adjacent
// characters that turn one into the other (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// Returns the first of the candidates closest to `word`. Ignores case; '-' equals '_'. Returns
// nothing if all are too far away.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

// Returns "; did you mean 'X'?", or empty. For the end of an error about an unknown word.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace leat
