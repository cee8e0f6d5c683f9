# Sourced by the scripts here: where the project is, and what has to be on the machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# A bare environment has no PATH worth the name and, after rustup, no cargo in it.
export PATH="${CARGO_HOME:-${HOME:=/root}/.cargo}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:${PATH:-}"
export HOME

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "not root and no sudo here: please run '$*' yourself, then try again"
  fi
}

# Where cargo puts what it builds: CARGO_TARGET_DIR and cargo's own configuration may move it.
target_dir() {
  cargo metadata --format-version 1 --no-deps --offline | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# apt_install COMMAND-OR-FILE PACKAGE…: installs quietly, and only when the first is missing.
apt_install() {
  local wanted=$1; shift
  if command -v "$wanted" >/dev/null || [ -e "$wanted" ]; then return; fi
  command -v apt-get >/dev/null || die "$wanted is missing and there is no apt-get here: please install $*"
  say "installing $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update >/dev/null
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

need_rust() {
  command -v cargo >/dev/null || die "cargo is missing: install Rust from https://rustup.rs, then try again"
  apt_install cc gcc libc6-dev
}

# Where the server's programs are: Debian and Homebrew keep them out of PATH.
postgres_bin() {
  local dir
  if [ -n "${DAVID_PG_BIN:-}" ]; then echo "$DAVID_PG_BIN"; return; fi
  if command -v initdb >/dev/null; then dirname "$(command -v initdb)"; return; fi
  for dir in $(printf '%s\n' /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin | sort -rV); do
    if [ -x "$dir/initdb" ]; then echo "$dir"; return; fi
  done
  return 1
}

# The programs, not a running server: Debian's package would start one, unless told not to.
need_postgres() {
  if postgres_bin >/dev/null; then return; fi
  as_root mkdir -p /etc/postgresql-common
  [ -e /etc/postgresql-common/createcluster.conf ] \
    || echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
  apt_install initdb postgresql
  postgres_bin >/dev/null || die "Postgres was installed, but initdb is not where it is looked for; set DAVID_PG_BIN"
}
