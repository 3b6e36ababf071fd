# SPDX-License-Identifier: Apache-2.0
# The Python packages of the end-to-end tests and the benchmarks, and moto's S3 server, in virtual
# environments that are named after what they hold.
# Result: $deps/venv -> venv-<hash of tests/requirements.txt>, $deps/moto -> moto-<hash>,
# $deps/lint -> lint-<hash>

# need_venv NAME REQUIREMENTS
need_venv() {
  local name=$1 requirements=$2 hash venv
  hash=$(sha256sum "$requirements" | cut -c1-12)
  venv=$deps/$name-$hash
  if [[ ! -f $venv/.complete ]]; then
    say "installing the Python packages of tests/$(basename "$requirements") into $venv (seconds)"
    rm -rf "$venv"
    quietly "making a virtual environment" /usr/bin/python3 -m venv "$venv"
    quietly "installing Python packages" "$venv/bin/pip" install -q --no-deps -r "$requirements"
    touch "$venv/.complete"
  fi
  ln -sfn "$name-$hash" "$deps/$name"
}

need_python() { need_venv venv "$here/../tests/requirements.txt"; }

# Beside the tests' own packages and not among them: a test must not import what it tests against.
need_moto() { need_venv moto "$here/../tests/moto_requirements.txt"; }

need_lint() { need_venv lint "$here/../tests/lint_requirements.txt"; }
