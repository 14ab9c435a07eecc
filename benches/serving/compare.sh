#!/usr/bin/env bash
# What serving a file costs: this server beside elfutils' debuginfod and nginx, over the same files, in one run.
#
#     benches/serving/compare.sh [UNHEX [SECONDS [CASE...]]]
#
# UNHEX is a release build (default: target/release/unhex), SECONDS the time of each measurement (default: 10), CASE some
# of 404, 128K, 50M, slow (default: all). Needs root, for a network namespace of its own, since Debian's debuginfod listens
# on every interface; and gcc, debuginfod, nginx-light, wrk, curl, iproute2.
#
# Of each server: requests a second, CPU milliseconds a request (user and system, by /proc), 99th percentile, MB a second.
# wrk takes its share of the same processors, so compare figures of one run, CPU first. Logs go to files.
set -euo pipefail

if [[ ${1:-} != --inside ]]; then
    program=$(realpath "${1:-target/release/unhex}")
    exec unshare --net "$0" --inside "$program" "${@:2}"
fi
unhex=$2 seconds=${3:-10}
cases=("${@:4}")
(( ${#cases[@]} > 0 )) || cases=(404 128K 50M slow)
ip link set lo up

work=$(mktemp --directory)
servers=()
finish() {
    for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
    wait
    rm --recursive --force "$work"
}
trap finish EXIT

# An ELF file of about so many KiB, and its build ID.
make_file() {
    printf 'char filling[%d << 10] = {1}; int main(void) { return filling[0]; }' "$2" >"$work/$1.c"
    gcc -g -Wl,--build-id=sha1 "$work/$1.c" -o "$work/files/$1"
    readelf --notes "$work/files/$1" | awk '/Build ID:/ { print $3 }'
}
mkdir "$work/files" "$work/tree" "$work/logs"
small=$(make_file small 112)
large=$(make_file large 51200)
none=00112233445566778899aabbccddeeff00112233

wait_for() {
    for _ in $(seq 300); do
        ! curl --silent --fail --output /dev/null "$1" || return 0
        sleep 0.1
    done
    echo "no answer from $1" >&2
    exit 1
}

(cd "$work" && exec "$unhex" serve --listen 127.0.0.1:8003 --free-disk-bytes-min 0) >"$work/logs/unhex" 2>&1 &
servers+=($!)
unhex_pids=$!
wait_for http://127.0.0.1:8003/readyz

debuginfod --database :memory: --port 8004 --rescan-time 0 -F "$work/files" >"$work/logs/debuginfod" 2>&1 &
servers+=($!)
debuginfod_pids=$!

for name in small large; do
    id=${!name}
    mkdir --parents "$work/tree/buildid/$id"
    cp "$work/files/$name" "$work/tree/buildid/$id/executable"
    curl --silent --fail --output /dev/null --upload-file "$work/files/$name" "http://127.0.0.1:8003/buildid/$id/executable"
done
cat >"$work/nginx.conf" <<NGINX
worker_processes 2;
daemon off;
user root;
pid $work/nginx.pid;
error_log $work/logs/nginx.error;
events { worker_connections 1024; }
http {
    access_log $work/logs/nginx;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    default_type application/octet-stream;
    server { listen 127.0.0.1:8005; root $work/tree; }
}
NGINX
PATH=$PATH:/usr/sbin nginx -c "$work/nginx.conf" 2>"$work/logs/nginx.start" &
servers+=($!)
wait_for "http://127.0.0.1:8005/buildid/$small/executable"
nginx_pids="$! $(pgrep --parent $! | tr '\n' ' ')"
wait_for "http://127.0.0.1:8004/buildid/$large/executable"

port() { case $1 in unhex) echo 8003 ;; debuginfod) echo 8004 ;; nginx) echo 8005 ;; esac; }

# Processor time of a server so far, in ticks.
ticks() {
    local pids="$1_pids" sum=0 pid
    for pid in ${!pids}; do
        sum=$((sum + $(sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }')))
    done
    echo "$sum"
}

measure() {
    local server=$1 connections=$2 path=$3 before after
    local url="http://127.0.0.1:$(port "$server")$path"
    wrk --threads 2 --connections "$connections" --duration 1s "$url" >/dev/null
    before=$(ticks "$server")
    wrk --threads 2 --connections "$connections" --duration "${seconds}s" --latency --timeout 60s "$url" >"$work/wrk"
    after=$(ticks "$server")
    awk -v server="$server" -v connections="$connections" -v ticks=$((after - before)) -v hertz="$(getconf CLK_TCK)" '
        / requests in / { requests = $1; sub(/,$/, "", $5); read = $5 }
        $1 == "99%" { p99 = $2 }
        $1 == "Requests/sec:" { rate = $2 }
        $1 == "Transfer/sec:" { transfer = $2 }
        /Non-2xx/ { other = " (" $NF " not 2xx)" }
        /Socket errors/ { other = other " " $0 }
        END {
            printf "| %s | %d | %s | %.4f | %s | %s |%s\n", server, connections, rate,
                requests ? ticks / hertz * 1000 / requests : 0, p99, transfer, other
        }' "$work/wrk"
}

compare() {
    printf '\n%s, load %s\n\n' "$1" "$(cut --delimiter ' ' --fields 1 /proc/loadavg)"
    echo '| server | connections | requests/s | CPU ms/request | p99 | transfer/s |'
    echo '|---|---|---|---|---|---|'
    for connections in $3; do
        for server in unhex debuginfod nginx; do
            measure "$server" "$connections" "$2"
        done
    done
}

for case in "${cases[@]}"; do
    case $case in
        404) compare 'an unknown build ID (404)' "/buildid/$none/debuginfo" '2 64' ;;
        128K) compare 'a file of 128 KB' "/buildid/$small/executable" '2 64' ;;
        50M) compare 'a file of 50 MB' "/buildid/$large/executable" '2 8' ;;
        slow)
            readers=()
            for server in unhex debuginfod nginx; do
                for _ in $(seq 64); do
                    curl --silent --output /dev/null --limit-rate 100k "http://127.0.0.1:$(port "$server")/buildid/$large/executable" &
                    readers+=($!)
                done
            done
            compare 'a file of 128 KB, beside 64 readers of 100 KB/s at each server' "/buildid/$small/executable" '16'
            kill "${readers[@]}" 2>/dev/null || true
            ;;
    esac
done
