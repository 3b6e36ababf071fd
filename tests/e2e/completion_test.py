# SPDX-License-Identifier: Apache-2.0
"""Real shells complete real lines, with what the running daemon knows."""

import os
import shutil
import subprocess

import pytest

from rig.leat import leat_program
from rig.process import wait_until


@pytest.fixture
def mounted(leat, store, s3, bucket, folder):
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    return leat.mount(store, bucket, os.path.join(folder, "mnt"))


@pytest.fixture
def shell(leat, folder):
    """Runs a script in a shell that finds leat."""
    programs = os.path.join(folder, "bin")
    os.makedirs(programs)
    os.symlink(leat_program(), os.path.join(programs, "leat"))
    home = os.path.join(folder, "home")
    os.makedirs(os.path.join(home, "files", "deep"))
    environment = {**leat.environment(), "PATH": f"{programs}:{os.environ['PATH']}",
                   "HOME": home, "XDG_CONFIG_HOME": os.path.join(home, ".config"),
                   "XDG_DATA_HOME": os.path.join(home, ".local/share")}

    def run(*words):
        program = shutil.which(words[0])
        assert program, f"{words[0]} is missing: run tools/setup test"
        done = subprocess.run([program, *words[1:]], capture_output=True, text=True, cwd=home,
                              env=environment, timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout
    return run


BASH = r"""
source <(leat completion bash)
compopt() { :; }  # which works only below a terminal
COMP_LINE=$1 COMP_POINT=${#1}
# As readline splits: at blanks, '=' and ':'.
COMP_WORDS=() word=
for ((i = 0; i < ${#1}; i++)); do
  c=${1:i:1}
  case $c in
    ' ') [[ $word ]] && COMP_WORDS+=("$word"); word= ;;
    = | :) [[ $word ]] && COMP_WORDS+=("$word"); COMP_WORDS+=("$c"); word= ;;
    *) word+=$c ;;
  esac
done
if [[ $word || $1 == *' ' ]]; then COMP_WORDS+=("$word"); fi
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_leat_complete
printf '%s\n' "${COMPREPLY[@]}"
"""


def wait_for(offered, wanted):
    """What a daemon knows is left out where it does not answer within 300 ms."""
    wait_until(lambda: offered() == wanted, f"{wanted} to be offered")


def in_bash(shell, line):
    return [word for word in shell("bash", "-c", BASH, "bash", line).splitlines() if word]


def test_bash(shell, mounted):
    assert in_bash(shell, "leat mo") == ["mount", "mounts"]
    assert in_bash(shell, "leat load --back") == ["--background"]
    wait_for(lambda: in_bash(shell, "leat umount "), [str(mounted)])
    assert in_bash(shell, f"leat mounts set {mounted} priority=h") == ["high"]
    assert in_bash(shell, f"leat mounts set {mounted} priority=") == ["low", "normal", "high"]
    assert "quota=" in in_bash(shell, f"leat mounts set {mounted} q")
    assert in_bash(shell, "leat load fi") == ["files"]
    assert in_bash(shell, "leat mount s3://b fil") == ["files"]
    assert in_bash(shell, "leat 'mo") == ["mount", "mounts"]


def test_paths_and_jobs_of_a_cluster(make_cluster, shell):
    worker = make_cluster(1).workers[0]
    number = worker.json("cluster", "load", "/train", "--bandwidth", "1KiB", "--background")["id"]

    def offered(line):
        script = f"export LEAT_RUNTIME_DIR='{worker.runtime_dir}'\n{BASH}"
        return [word for word in shell("bash", "-c", script, "bash", line).splitlines() if word]
    wait_for(lambda: offered("leat cluster umount "), ["/train"])
    assert offered("leat cluster umount /x") == []
    for word in ("show", "wait", "cancel"):
        wait_for(lambda word=word: offered(f"leat cluster jobs {word} "), [str(number)])
    worker.run("cluster", "jobs", "cancel", str(number))
    worker.run("cluster", "jobs", "wait", str(number), check=False)
    wait_for(lambda: offered("leat cluster jobs cancel "), [])


ZSH = r"""
autoload -U compinit && compinit -D -d "$HOME/.zcompdump"
source <(leat completion zsh)
_describe() { local name=$2; print -rl -- "${(@P)name}" }
_files() { print -r -- "files $*" }
words=("${@}")
CURRENT=$#words
_leat
"""


def in_zsh(shell, *words):
    return shell("zsh", "-f", "-c", ZSH, "zsh", *words).splitlines()


def test_zsh(shell, mounted):
    assert [line.split(":")[0] for line in in_zsh(shell, "leat", "mo")] == ["mount", "mounts"]
    starts = (f"{mounted}:s3\\", f"{mounted}:s3:")

    def first_offered():
        return in_zsh(shell, "leat", "umount", "")[:1]
    wait_until(lambda: any(line.startswith(starts) for line in first_offered()), "the folder")
    assert in_zsh(shell, "leat", "load", "x")[-1].strip() == "files"
    assert in_zsh(shell, "leat", "mount", "s3://b", "x")[-1] == "files -/"


def in_fish(shell, line):
    script = 'leat completion fish | source; complete -C "$argv[1]"'
    return [found.split("\t")[0] for found in shell("fish", "-c", script, line).splitlines()]


def test_fish(shell, mounted):
    assert sorted(in_fish(shell, "leat mo")) == ["mount", "mounts"]
    assert in_fish(shell, "leat load --back") == ["--background"]
    wait_for(lambda: in_fish(shell, "leat umount "), [str(mounted)])
    assert in_fish(shell, "leat load fi") == ["files/"]


def test_without_a_daemon_the_rest_is_offered(shell):
    assert in_bash(shell, "leat umount ") == []
    assert in_bash(shell, "leat snapshot bu") == ["build"]
