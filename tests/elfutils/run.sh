#!/usr/bin/env bash
# Runs elfutils' own portable debuginfod tests against a symbol server: README.md says which and why.
#
#   tests/elfutils/run.sh PROGRAM [TEST...]
#
# PROGRAM is the `unhex` to be tested, or `reference` for Debian's debuginfod, which shows what the
# tests say of it. ELFUTILS names the unpacked source of elfutils; without it the source package of
# Debian's elfutils is fetched, which needs network, apt-get and dpkg-dev.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=${1:?which program}
shift
mapfile -t portable < <(sed -n 's/^| `\([a-z-]*\)` | passes.*/\1/p' "$here/README.md")
[ $# -gt 0 ] || set -- "${portable[@]}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch() {
  mkdir -p "$work/apt/lists/partial" "$work/apt/sources"
  local file
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -e "$file" ] && sed 's/^Types: deb$/Types: deb-src/' "$file" >"$work/apt/sources/${file##*/}"
  done
  if [ -e /etc/apt/sources.list ]; then
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$work/apt/sources/main.list"
  fi
  local options=(-qq -o "Dir::Etc::sourcelist=$work/none" -o "Dir::Etc::sourceparts=$work/apt/sources"
    -o "Dir::State::lists=$work/apt/lists" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  (cd "$work" && apt-get "${options[@]}" source elfutils >&2)
  (cd "$work"/elfutils-*/ && pwd)
}
source=${ELFUTILS:-$(fetch)}

# A tree as `make` would leave it: the installed tools stand where the built ones would.
build=$work/build
mkdir -p "$build"/{debuginfod,src,tests} "$work/data"
for tool in readelf strip addr2line; do
  ln -s "$(command -v "eu-$tool")" "$build/src/$tool"
done
ln -s "$(command -v debuginfod-find)" "$build/debuginfod/debuginfod-find"
if [ "$program" = reference ]; then
  ln -s "$(command -v debuginfod)" "$build/debuginfod/debuginfod"
else
  # The tests look for a word anywhere in the metrics: they get those of the reference server's names.
  mkdir "$work/bin"
  cat >"$work/bin/curl" <<END
#!/bin/sh
case "\$*" in
  */metrics) $(command -v curl) "\$@" | grep -Ev '^(#|unhex_|process_)' ;;
  *) exec $(command -v curl) "\$@" ;;
esac
END
  chmod +x "$work/bin/curl"
  export PATH=$work/bin:$PATH
  UNHEX=$(realpath "$program")
  export UNHEX SHIM_DATA=$work/data
  ln -s "$here/debuginfod" "$build/debuginfod/debuginfod"
fi
printf '#define ELFUTILS_HEADER(name) <elfutils/lib##name.h>\n' >"$work/config.h"
gcc -D_GNU_SOURCE -include "$work/config.h" -o "$build/tests/debuginfod_build_id_find" \
  "$source/tests/debuginfod_build_id_find.c" -ldw -lelf
echo 'int main(void) { return 0; }' | gcc -g -Wl,--build-id -x c -o "$build/tests/dwfllines" -

export srcdir=$source/tests abs_srcdir=$source/tests abs_builddir=$build/tests \
  abs_top_builddir=$build elfutils_testrun=built built_library_path=
passed=0 failed=0
cd "$build/tests"
for test in "$@"; do
  SHIM_SOURCES=
  [ "$test" != artifact-running ] || SHIM_SOURCES=yes
  export SHIM_SOURCES
  # 0.188 wants the name of a file there, 0.194 its path, as this server answers.
  sed 's#X-DEBUGINFOD-FILE: prog#X-DEBUGINFOD-FILE: .*prog#' \
    "$source/tests/run-debuginfod-$test.sh" >"$work/$test.sh"
  # The reference server listens everywhere: each test has a loopback of its own.
  if timeout 300 unshare -n bash -c 'ip link set lo up; exec bash "$0"' \
    "$work/$test.sh" >"$work/$test.log" 2>&1; then
    echo "test $test ... ok"
    passed=$((passed + 1))
  else
    echo "test $test ... FAILED ($?)"
    failed=$((failed + 1))
    tail -n "${LINES_SHOWN:-40}" "$work/$test.log" | sed 's/^/    /'
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
