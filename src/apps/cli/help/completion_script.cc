// SPDX-License-Identifier: Apache-2.0
// The shell scripts: each passes the line up to the cursor to `leat complete` and reads its lines.
// The first line has three fields: further candidates (files, directories, none), whether the word
// continues (yes, no), and the word. Each other line is a candidate and its help. Tabs separate
// fields.
#include "apps/cli/help/completion.h"

namespace leat {
namespace {

// bash splits words at '=' and ':' and ignores quotes, so the script passes the whole line.
constexpr const char* kBash =
    R"(# bash completion for leat; in ~/.bashrc: source <(leat completion bash)
_leat_complete() {
  local line=${COMP_LINE:0:COMP_POINT} piece=${COMP_WORDS[COMP_CWORD]}
  local word kind goes_on candidate help prefix
  local -a found=()
  COMPREPLY=()
  {
    IFS=$'\t' read -r kind goes_on word
    while IFS=$'\t' read -r candidate help; do found+=("$candidate"); done
  } < <(leat complete --line "$line" 2>/dev/null)
  case $kind in
    files) compopt -o filenames; mapfile -t -O "${#found[@]}" found < <(compgen -f -- "$word") ;;
    directories) compopt -o filenames; mapfile -t found < <(compgen -d -- "$word") ;;
  esac
  [[ $goes_on == yes ]] && compopt -o nospace
  # Of "name=val" readline replaces "val" only.
  [[ $piece == [=:] ]] && piece=
  piece=${piece#[\"\']}
  prefix=${word%"$piece"}
  for candidate in "${found[@]}"; do COMPREPLY+=("${candidate#"$prefix"}"); done
}
complete -F _leat_complete leat
)";

constexpr const char* kZsh = R"(#compdef leat
# zsh completion for leat: _leat in a folder of $fpath, or source <(leat completion zsh)
_leat() {
  local -a lines candidates nospace
  local first line word help
  lines=("${(@f)$(leat complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  first=$lines[1]
  for line in "${(@)lines[2,-1]}"; do
    word=${line%%$'\t'*}
    help=${line#*$'\t'}
    candidates+=("${word//:/\\:}${help:+:$help}")
  done
  [[ $first == *$'\t'yes$'\t'* ]] && nospace=(-S '')
  (( $#candidates )) && _describe leat candidates $nospace
  case $first in
    files*) _files ;;
    directories*) _files -/ ;;
  esac
}
if [[ $funcstack[1] == _leat ]]; then _leat "$@"; else compdef _leat leat; fi
)";

constexpr const char* kFish = R"(# fish completion for leat; as ~/.config/fish/completions/leat.fish
function __leat_complete
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l typed (commandline --cut-at-cursor --current-token)
    set -l lines (leat complete -- $words[2..] "$typed" 2>/dev/null)
    set -l kind (string split \t -- $lines[1])[1]
    for line in $lines[2..]
        echo $line
    end
    switch $kind
        case files
            __fish_complete_path "$typed"
        case directories
            __fish_complete_directories "$typed" ''
    end
end
complete --command leat --no-files --arguments '(__leat_complete)'
)";

}  // namespace

std::optional<std::string> completion_script(std::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return std::nullopt;
}

}  // namespace leat
