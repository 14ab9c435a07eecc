#!/usr/bin/env bash
# A perf that speaks debuginfod against a symbol server: `perf probe -L` lists a function's source,
# `perf buildid-cache --debuginfod` and `perf record --debuginfod` end in a report with names.
#
#   tests/perf/debuginfod.sh UNHEX [PERF]
#
# Without PERF one is built from Debian's kernel source, which takes two minutes of one processor and
# the packages linux-source-6.1 libdebuginfod-dev libdw-dev libelf-dev flex bison xz-utils libssl-dev
# pkg-config libcap-dev libnuma-dev libzstd-dev liblzma-dev zlib1g-dev libunwind-dev libslang2-dev
# binutils-dev libtraceevent-dev.
set -euo pipefail
unhex=$(realpath "${1:?which unhex}")
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT

if [ $# -gt 1 ]; then
  perf=$(realpath "$2")
else
  tar -C "$work" -xJf /usr/src/linux-source-6.1.tar.xz \
    linux-source-6.1/{tools,include,lib,scripts,arch,Makefile}
  make -C "$work/linux-source-6.1/tools/perf" NO_LIBPERL=1 NO_LIBPYTHON=1 NO_JVMTI=1 WERROR=0 \
    >"$work/make.log" 2>&1 || { tail "$work/make.log"; exit 1; }
  perf=$work/linux-source-6.1/tools/perf/perf
fi
cd "$work"
mkdir source home
cat >source/spinner.c <<'C'
static unsigned long __attribute__((noinline)) spin_hot(unsigned long rounds)
{
    unsigned long sum = 1;
    while (rounds--)
        sum = sum * 31 + (sum >> 7);
    return sum;
}

int main(void)
{
    return spin_hot(300000000UL) == 42;
}
C
# perf asks for the name of the unit as it is, which the protocol wants absolute.
gcc -O1 -g -Wl,--build-id -o whole "$work/source/spinner.c"
strip -o spinner whole
: >address
"$unhex" serve --listen 127.0.0.1:0 --data data --log error >address &
server=$!
until grep -q '^listening on' address; do sleep 0.1; done
url=$(sed -n 's/^listening on //p' address)
"$unhex" upload --server "$url" --with-sources whole
# Only the server has them from now on.
rm -rf source whole

export HOME=$work/home DEBUGINFOD_CACHE_PATH=$work/cache DEBUGINFOD_URLS=$url
has() { # WHAT WHERE WORDS
  grep -qF -- "$3" "$2" || { echo "$1: no \"$3\" in:"; cat "$2"; exit 1; }
  echo "$1 ... ok"
}
"$perf" probe -x spinner -L spin_hot >listing 2>&1 || true
has 'perf probe -L lists the source' listing 'sum = sum * 31 + (sum >> 7);'

"$perf" --buildid-dir "$work/a" record --no-buildid-cache -e cpu-clock -o a.data -- ./spinner >/dev/null 2>&1
"$perf" --buildid-dir "$work/a" report --stdio --sort symbol -i a.data >before 2>/dev/null
if grep -q spin_hot before; then echo "a report has names without the server"; exit 1; fi
rm -rf "$work/cache"
"$perf" --buildid-dir "$work/a" buildid-cache --debuginfod="$url" --add ./spinner
"$perf" --buildid-dir "$work/a" report --stdio --sort symbol -i a.data >after 2>/dev/null
has 'perf buildid-cache --debuginfod names the functions' after spin_hot

rm -rf "$work/cache"
"$perf" --buildid-dir "$work/b" record --debuginfod="$url" -e cpu-clock -o b.data -- ./spinner >/dev/null 2>&1
"$perf" --buildid-dir "$work/b" report --stdio --sort symbol,srcline -i b.data >lines 2>/dev/null
has 'perf record --debuginfod names the functions' lines spin_hot
echo "3 passed, 0 failed"
