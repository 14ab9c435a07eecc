#!/bin/sh
# Stands in for the converter in tests: ends in the way that the name of its input says.
for argument in "$@"; do
    case "$argument" in
    --debuginfo=*) input="${argument#--debuginfo=*:}" ;;
    --output=*) output="${argument#--output=}" ;;
    esac
done

converted() {
    echo "{\"converted\":{\"quality\":\"dwarf_lines\",\"functions\":1,\"lines\":1,\"units_failed\":0,\"needs_supplement\":null,\"converter_version\":1,\"size_bytes\":$1}}"
}

case "${input##*/}" in
good)
    printf 'index\n' >"$output"
    converted 6
    ;;
copy)
    cp "${input%/*}/prepared" "$output"
    converted "$(wc -c <"$output" | tr -d ' ')"
    ;;
short)
    printf 'index\n' >"$output"
    converted 7
    ;;
unsupported)
    printf 'part' >"$output"
    echo '{"failed":{"kind":"unsupported","detail":"no ELF"}}'
    ;;
disk-full) echo '{"unavailable":{"detail":"no space left on device"}}' ;;
signal-*)
    ulimit -c 0
    printf 'part' >"$output"
    kill -s "${input##*signal-}" $$
    ;;
out-of-memory)
    ulimit -c 0
    echo 'memory allocation of 4398046511104 bytes failed' >&2
    kill -s ABRT $$
    ;;
panic)
    echo "thread 'convert' panicked at somewhere.rs:1:1:" >&2
    exit 101
    ;;
silent) ;;
chatter) echo 'hello' ;;
usage)
    echo "error: unrecognized subcommand 'convert-child'" >&2
    exit 2
    ;;
hang)
    sleep 600 &
    echo "$$ $!" >"${input%/*}/pids"
    wait
    ;;
inherited)
    for fd in /proc/$$/fd/*; do
        readlink "$fd"
    done >"$output"
    echo '--' >>"$output"
    env >>"$output"
    converted "$(wc -c <"$output" | tr -d ' ')"
    ;;
flood)
    yes | head -c 3000000
    yes | head -c 3000000 >&2
    ;;
esac
