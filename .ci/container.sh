#!/usr/bin/env bash
# Build the image and run it, in podman and in a real Docker engine: .ci/container.sh [PYTHON]
#
# PYTHON (default python3) runs pip and the tests in tests/container; it needs pytest and PyYAML.
# Needs root and Debian packages, which it installs. No image registry is asked: a Debian with
# Python stands in for the base image, with the wheels the build needs inside, so the build runs
# without a network. It proves instructions, paths, users, permissions and exit codes, not the
# contents of the official base. The host's network stays as it is: every engine runs in a network
# namespace of its own. What is kept between runs lies in $WORK.
set -euo pipefail

PROJECT=$(cd "$(dirname "$0")/.." && pwd)
PYTHON=$(command -v "${1:-python3}")
WORK=${WORK:-/var/tmp/trainproof-container}
SUITE=trixie
PYTHON_VERSION=3.13 # what SUITE carries
BASE=localhost/trainproof-base:ci
IMAGE=localhost/trainproof:ci

say() { printf '\n--- %s\n' "$*"; }

# Without root or apt there is no container to test: a failure in CI, a printed skip elsewhere.
cannot() {
  printf 'container: not run: %s\n' "$*" >&2
  [ "${CI:-}" = true ] && exit 1
  exit 0
}

packages() {
  local missing=() package
  for package in podman runc mmdebstrap iptables uidmap; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
      >"$WORK/apt.log" 2>&1 || { tail "$WORK/apt.log"; cannot "apt-get failed"; }
}

# Debian's Python dressed as the slim image: `python` in /usr/local/bin, pip, no bytecode of the
# standard library.
base_root() {
  [ -s "$WORK/base.tar" ] && return
  local pip_setup="PYTHONPATH=\$(ls /usr/share/python-wheels/pip-*.whl) python3 -m pip install -q \
    --no-index --no-cache-dir --root-user-action=ignore --find-links /usr/share/python-wheels pip"
  # env -i: the host's pip settings must not leak into the new root.
  env -i PATH="$PATH" HOME=/root mmdebstrap --quiet --variant=minbase \
    --include=python3,python3-venv,ca-certificates \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --customize-hook='rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED' \
    --customize-hook='ln -s /usr/bin/python3 "$1"/usr/local/bin/python' \
    --customize-hook='ln -s /usr/bin/python3 "$1"/usr/local/bin/python3' \
    --customize-hook="chroot \"\$1\" sh -c '$pip_setup'" \
    --customize-hook='find "$1"/usr/lib/python3* -name "*.pyc" -delete' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin "$1"/var/log/*' \
    "$SUITE" "$WORK/base.part.tar"
  mv "$WORK/base.part.tar" "$WORK/base.tar"
}

# What the build would fetch, laid into the base image.
wheelhouse() {
  rm -rf "$WORK/context"
  mkdir -p "$WORK/context/wheelhouse"
  "$PYTHON" - "$PROJECT/pyproject.toml" >"$WORK/requirements.txt" <<'PY'
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)
needs = [project["build-system"]["requires"], project["project"]["dependencies"]]
needs += [project["project"]["optional-dependencies"][extra] for extra in ("zstd", "speech")]
print(*sum(needs, []), sep="\n")
PY
  "$PYTHON" -m pip download -qq -d "$WORK/context/wheelhouse" -r "$WORK/requirements.txt" \
    --only-binary :all: --implementation cp --python-version "$PYTHON_VERSION" \
    --platform "manylinux_2_28_$(uname -m)" --platform "manylinux_2_17_$(uname -m)" \
    --platform "manylinux2014_$(uname -m)"
  printf '[global]\nno-index = true\nfind-links = /wheelhouse\n' >"$WORK/context/pip.conf"
  printf 'FROM trainproof-root\nCOPY wheelhouse /wheelhouse\nCOPY pip.conf /etc/pip.conf\n' \
    >"$WORK/context/Dockerfile"
}

configure_podman() {
  mkdir -p "$WORK/podman"
  cat >"$WORK/podman/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$WORK/podman/graph"
runroot = "$WORK/podman/run"
END
  # Limits: podman asks for more open files than an unprivileged machine grants.
  cat >"$WORK/podman/containers.conf" <<'END'
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
netns = "none"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
END
  export CONTAINERS_STORAGE_CONF=$WORK/podman/storage.conf
  export CONTAINERS_CONF=$WORK/podman/containers.conf
}

# build_and_test NAME ENGINE...: the base from the root, the image from the Dockerfile as
# committed, then the tests against it.
build_and_test() {
  local name=$1
  shift
  say "$name: base"
  "$@" image inspect trainproof-root >/dev/null 2>&1 ||
    "$@" import -c 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' \
      "$WORK/base.tar" trainproof-root
  "$@" build -q --network none -t "$BASE" "$WORK/context"
  say "$name: build"
  "$@" build -q --network none --build-arg "PYTHON_IMAGE=$BASE" -t "$IMAGE" "$PROJECT"
  "$@" build -q --network none --build-arg "PYTHON_IMAGE=$BASE" --build-arg EXTRAS=speech \
    -t "$IMAGE-speech" "$PROJECT"
  "$@" image prune -f >/dev/null # what earlier runs of this script left without a name
  say "$name: run"
  TRAINPROOF_CONTAINER="$* run $RUN_OPTIONS" TRAINPROOF_IMAGE=$IMAGE \
    "$PYTHON" -m pytest -p no:cacheprovider -m container "$PROJECT/tests/container"
}

# A daemon from Debian's packages, unpacked and not installed; it ends with this script.
start_docker() {
  local deb="$WORK/docker/deb" root="$WORK/docker/root"
  if [ ! -x "$root/usr/sbin/dockerd" ]; then
    mkdir -p "$deb"
    local names=(docker.io containerd)
    apt-cache show docker-cli >/dev/null 2>&1 && names+=(docker-cli)
    (cd "$deb" && apt-get download -qq "${names[@]}")
    local package
    for package in "$deb"/*.deb; do dpkg -x "$package" "$root"; done
  fi
  export PATH="$root/usr/bin:$root/usr/sbin:$PATH" DOCKER_BUILDKIT=0
  export DOCKER_HOST="unix://$WORK/docker/socket" DOCKER_CONFIG="$WORK/docker/config"
  echo '{}' >"$WORK/docker/daemon.json"
  unshare -n -m --propagation private dockerd --config-file "$WORK/docker/daemon.json" \
    -H "$DOCKER_HOST" --data-root "$WORK/docker/data" --exec-root "$WORK/docker/exec" \
    --pidfile "$WORK/docker/pid" --storage-driver overlay2 --iptables=false --ip6tables=false \
    --oom-score-adjust 0 >"$WORK/docker/log" 2>&1 &
  daemon=$!
  trap 'kill "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null || :' EXIT
  for _ in $(seq 150); do
    docker version >/dev/null 2>&1 && return
    kill -0 "$daemon" 2>/dev/null || break
    sleep 0.2
  done
  tail "$WORK/docker/log"
  return 1
}

[ "$(id -u)" = 0 ] || cannot "it needs root"
command -v apt-get >/dev/null || cannot "it needs Debian's apt-get"
mkdir -p "$WORK"
say packages
packages
say "root of the base"
base_root
say wheels
wheelhouse

# podman's --read-only leaves /tmp writable unless told; Docker's does not.
configure_podman
RUN_OPTIONS="--pull=never --read-only-tmpfs=false" build_and_test podman unshare -n podman

say "a Docker engine"
start_docker
RUN_OPTIONS="" build_and_test docker docker
