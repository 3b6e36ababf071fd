# SPDX-License-Identifier: Apache-2.0
# The Python packages of the end-to-end tests and the benchmarks, and moto's S3 server, in virtual
# environments that are named after what they hold.
# Result: $deps/venv -> venv-<hash of tests/requirements.txt>, $deps/moto -> moto-<hash>, and the same
# of lint, programs, programs-large, training, jax, docs and docs-large

# need_venv NAME REQUIREMENTS [HOW LONG [OPTION OF VENV]…]
need_venv() {
  local name=$1 requirements=$2 said=${3:-seconds} hash venv isolation='' builders
  shift $(($# < 3 ? $# : 3))
  hash=$(sha256sum "$requirements" | cut -c1-12)
  venv=$deps/$name-$hash
  if [[ ! -f $venv/.complete ]]; then
    say "installing the Python packages of tests/$(basename "$requirements") into $venv ($said)"
    rm -rf "$venv"
    quietly "making a virtual environment" /usr/bin/python3 -m venv "$@" "$venv"
    # What comes as sources is made with what the list has for it. pip's copies of it all help nobody.
    mapfile -t builders < <(sed -n '/^\(setuptools\|wheel\|packaging\)==/p' "$requirements")
    if grep -q '^setuptools==' "$requirements"; then
      quietly "installing what builds packages" "$venv/bin/pip" install -q --no-deps --no-cache-dir \
        "${builders[@]}"
      isolation=--no-build-isolation
    fi
    quietly "installing Python packages" "$venv/bin/pip" install -q --no-deps --no-cache-dir \
      ${isolation:+"$isolation"} -r "$requirements"
    touch "$venv/.complete"
  fi
  ln -sfn "$name-$hash" "$deps/$name"
}

need_python() { need_venv venv "$here/../tests/requirements.txt"; }

# Beside the tests' own packages and not among them: a test must not import what it tests against.
need_moto() { need_venv moto "$here/../tests/moto_requirements.txt"; }

# What programs read and write a mounted bucket with (tests/e2e/programs_test.py, tests/soak).
need_programs() {
  need_venv programs "$here/../tests/programs_requirements.txt" "half a minute, 0.8 GB"
}
need_large_programs() {
  need_venv programs-large "$here/../tests/programs_large_requirements.txt" "half a minute, 0.4 GB"
  need_venv training "$here/../tests/training_requirements.txt" "seconds" --system-site-packages
  need_venv jax "$here/../tests/jax_requirements.txt" "half a minute, 0.7 GB"
}

need_lint() { need_venv lint "$here/../tests/lint_requirements.txt"; }

# What the programs in the documentation import. Two environments: Debian's PyTorch wants Debian's NumPy,
# TensorFlow a newer one.
need_docs_python() {
  need_venv docs "$here/../tests/docs_requirements.txt" seconds --system-site-packages
  need_venv docs-large "$here/../tests/docs_large_requirements.txt" "about two minutes, 2 GB"
}
