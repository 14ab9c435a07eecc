#!/usr/bin/env bash
# What the first scan of folders costs: this server beside the reference debuginfod, in turns.
#
#   benches/scan.sh FOLDER...
#
# UNHEX=program to measure [target/release/unhex]; ROUNDS=how often [3]. The folders are read once before, so
# that both find them in the page cache. The reference is asked in a network namespace of its own, which needs
# root, since it listens on every interface; without root, or without it, only this server is measured.
set -euo pipefail

unhex=${UNHEX:-target/release/unhex}
rounds=${ROUNDS:-3}
(( $# > 0 )) || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folders=()
for folder in "$@"; do folders+=("$(realpath "$folder")"); done
work=$(mktemp -d)
server=
# Only what was started here is ended.
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

bytes=$(find "${folders[@]}" -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%.0f", sum }')
files=$(find "${folders[@]}" -type f | wc -l)
find "${folders[@]}" -type f -exec cat {} + >"/dev/null"
printf '%d files, %d bytes; load %s\n' "$files" "$bytes" "$(cut -d' ' -f1-3 /proc/loadavg)"
printf '%-12s %8s %12s %12s %12s %12s\n' server round 'CPU s' 'CPU s/GB' 'peak MB' 'found'

# CPU seconds of a process and all its threads.
cpu() {
    local fields ticks
    fields=$(sed 's/.*) //' "/proc/$1/stat")
    ticks=$(awk '{ print $12 + $13 }' <<<"$fields")
    awk -v ticks="$ticks" -v hz="$(getconf CLK_TCK)" 'BEGIN { printf "%.2f", ticks / hz }'
}

peak() { awk '/^VmHWM/ { printf "%.0f", $2 / 1024 }' "/proc/$1/status"; }

# Executables and debug files that a scan found, by the metrics.
found() { awk '/^found_(executable|debuginfo)_total/ { sum += $NF } END { print sum + 0 }'; }

report() { # server, round, process, what was found
    local seconds
    seconds=$(cpu "$3")
    awk -v name="$1" -v round="$2" -v cpu="$seconds" -v bytes="$bytes" -v peak="$(peak "$3")" -v found="$4" \
        'BEGIN { printf "%-12s %8d %12.2f %12.3f %12d %12s\n", name, round, cpu, cpu * 1e9 / bytes, peak, found }'
}

# Asks until the metrics have a line: command to ask with, line.
await() {
    local deadline=$((SECONDS + 600))
    until $1 2>/dev/null | grep -qxF "$2"; do
        (( SECONDS < deadline )) || { echo "no $2 in time" >&2; exit 1; }
        sleep 0.05
    done
}

end() { kill "$server"; wait "$server" 2>/dev/null || true; server=; }

measure_unhex() {
    local arguments=() folder url
    for folder in "${folders[@]}"; do arguments+=(--scan "$folder"); done
    rm -rf "$work/data" "$work/out"
    "$unhex" serve --listen 127.0.0.1:0 --data "$work/data" --scan-interval 0 --log warn "${arguments[@]}" \
        >"$work/out" 2>"$work/err" &
    server=$!
    until grep -qs '^listening' "$work/out"; do sleep 0.05; done
    url=$(sed -n 's/^listening on //p' "$work/out")
    await "curl -s $url/metrics" 'thread_work_total{role="traverse"} 1'
    report unhex "$1" "$server" "$(curl -s "$url/metrics" | found)"
    end
}

measure_reference() {
    local ask
    # The first `exec` makes the namespace's first process the server itself.
    unshare -n bash -c 'ip link set lo up && exec "$@"' - \
        debuginfod -d "$work/reference.sqlite" -t 0 -p 8002 -F "${folders[@]}" >/dev/null 2>&1 &
    server=$!
    ask="nsenter -t $server -n curl -s http://127.0.0.1:8002/metrics"
    await "$ask" 'thread_work_total{role="traverse"} 1'
    await "$ask" 'thread_work_pending{role="scan"} 0'
    await "$ask" 'thread_busy{role="scan"} 0'
    report reference "$1" "$server" "$($ask | found)"
    end
    rm -f "$work"/reference.sqlite*
}

for (( round = 1; round <= rounds; round++ )); do
    measure_unhex "$round"
    if (( EUID == 0 )) && command -v debuginfod >/dev/null; then measure_reference "$round"; fi
done
