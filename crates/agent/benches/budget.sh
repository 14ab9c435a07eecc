#!/usr/bin/env bash
# What the agent costs a host of two processors that compiles all the time, and how many stacks are whole; as root:
#
#   cargo build --release -p unhex-agent -p unhex-profile-store
#   crates/agent/benches/budget.sh target/release RATE SECONDS [peers]
#
# rustc runs again and again on one processor, gcc and short programs by the dozen on the other. After a minute the agent's processor time, and what
# the kernel says of its program (kernel.bpf_stats_enabled), are compared over SECONDS. With `peers`, perf (copies of 65,000 bytes) and bpftrace sample the same
# load for ten seconds each. For an hour: SECONDS 3600; resident memory is said every ten minutes.
set -euo pipefail

programs=$(realpath "$1") rate=$2 seconds=$3 peers=${4:-}
folder=$(mktemp -d)
cd "$folder"
store=18013 metrics=18014
processes=()
finish() {
    echo 0 > /proc/sys/kernel/bpf_stats_enabled
    for process in "${processes[@]}"; do
        kill -- "-$process" 2>/dev/null || kill "$process" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap finish EXIT

python3 - <<'P'
rust = ["#![allow(dead_code)]", "use std::collections::BTreeMap;"]
for i in range(1200):
    rust.append(
        f"pub fn f{i}(x: u64, m: &mut BTreeMap<u64, Vec<String>>) -> String {{ let mut s = String::new(); for k in 0..x {{ "
        f'm.entry(k % {i + 3}).or_default().push(format!("{{}}-{{}}", k, {i})); '
        f"if let Some(v) = m.get(&(k / 2)) {{ for t in v.iter().filter(|t| t.len() > {i % 7}) {{ s.push_str(t); }} }} }} s }}"
    )
open("big.rs", "w").write("\n".join(rust))
c = [
    f"int g{i}(int n) {{ int s = 0; for (int k = 0; k < n; k++) {{ s += k * {i} + (k % {i + 2}); if (s > 100000) s -= 99999; }} return s; }}"
    for i in range(400)
]
open("some.c", "w").write("\n".join(c) + "\n")
P
cat > rust.sh <<'S'
while :; do rustc --edition 2024 --crate-type rlib -C opt-level=1 -o r.rlib big.rs; done
S
cat > storm.sh <<'S'
while :; do gcc -O1 -c -o s.o some.c; /bin/true; /bin/ls > /dev/null; sh -c 'echo x | sed s/x/y/' > /dev/null; done
S
begin() {
    setsid "$@" > "log.${#processes[@]}" 2>&1 &
    processes+=($!)
}
begin bash rust.sh
begin bash storm.sh
begin "$programs/unhex-store" serve --listen 127.0.0.1:$store --symbols none --data data
echo 1 > /proc/sys/kernel/bpf_stats_enabled
begin "$programs/unhex-agent" --store http://127.0.0.1:$store --listen 127.0.0.1:$metrics --samples-per-second "$rate" --cpu-percent-max 5
agent=${processes[-1]}

# Ticks of the process; nanoseconds and runs of its kernel program; and how stacks ended.
look() {
    awk '{ print $14 + $15 }' "/proc/$agent/stat"
    cat /proc/"$agent"/fdinfo/* 2>/dev/null | awk '/run_time_ns/ { t += $2 } /run_cnt/ { c += $2 } END { print t + 0, c + 0 }'
    date +%s.%N
    curl -s http://127.0.0.1:$metrics/metrics | grep '^unhex_agent_samples_total'
}
resident() {
    grep -E 'VmHWM|VmRSS|RssAnon' "/proc/$agent/status" | tr -s '\t ' ' ' | tr '\n' ';'
    cut -d' ' -f1-3 /proc/loadavg
}
sleep 60
look > before
for ((left = seconds; left > 0; left -= 600)); do
    sleep $((left < 600 ? left : 600))
    resident
done
look > after
python3 - "$rate" <<'P'
import os, sys

def read(name):
    lines = open(name).read().split("\n")
    kernel = [int(n) for n in lines[1].split()]
    stops = {line.split('"')[1]: int(line.split()[-1]) for line in lines[3:] if line}
    return int(lines[0]) / os.sysconf("SC_CLK_TCK"), kernel[0] / 1e9, kernel[1], float(lines[2]), stops

before, after = read("before"), read("after")
own, kernel, runs, took = (b - a for a, b in zip(before[:4], after[:4]))
stops = {stop: count - before[4][stop] for stop, count in after[4].items()}
share = lambda seconds: f"{seconds / took / os.cpu_count() * 100:.3f} % of the host"
print(f"{sys.argv[1]} Hz, {took:.1f} s: the process {own:.2f} s, {share(own)}; in the kernel {kernel / max(runs, 1) * 1e6:.1f} us a sample, {share(kernel)}; together {share(own + kernel)}")
whole = stops["root"] + stops["no user stack"]
print({stop: count for stop, count in stops.items() if count}, f"whole: {whole / sum(stops.values()) * 100:.2f} %")
P
for service in rustc cc1; do
    "$programs/unhex-store" coverage --store http://127.0.0.1:$store "{service=\"$service\"}" --since "${seconds}s" --group-by service --min-share 0.01 |
        grep -E 'truncated|CPU time have' | cut -c1-80 | sed "s/^/$service: /"
done
curl -s http://127.0.0.1:$metrics/metrics | grep -E '^unhex_agent_(events_lost|samples_lost|tables_evicted|table_bytes)'

if [[ -n $peers ]]; then
    echo "perf, copies of 65,000 bytes, and bpftrace, by frame pointers:"
    perf record -q -a -e cpu-clock -F "$rate" --call-graph dwarf,65000 -o perf.data -- sleep 10 2> /dev/null
    timeout 30 bpftrace -e "profile:hz:$rate /pid/ { @[comm, ustack] = count(); } interval:s:10 { exit(); }" > bpftrace.txt 2> /dev/null || true
    # Unwinding the copies takes minutes.
    perf script -i perf.data -F comm,ip,sym 2> /dev/null > perf.txt
    python3 - <<'P'
import collections, re

root = re.compile(r"\b(_start|__clone3|clone3|__clone|_dl_start_user|ret_from_fork_asm|ret_from_fork)\b")
kind = lambda comm: "rustc" if comm.startswith(("rustc", "opt ")) else comm if comm == "cc1" else "other"

def say(tool, counted):
    for name in ("rustc", "cc1", "other"):
        whole, all_ = counted[name, True], counted[name, True] + counted[name, False]
        if all_:
            print(f"{tool}: {name} {whole} of {all_} stacks whole, {whole / all_ * 100:.1f} %")

counted = collections.Counter()
for stack in open("perf.txt", errors="replace").read().split("\n\n"):
    lines = stack.strip("\n").split("\n")
    if len(lines) > 1 and not lines[0].startswith("swapper"):
        counted[kind(lines[0].strip()), bool(root.search(lines[-1]))] += 1
say("perf", counted)
counted = collections.Counter()
for comm, stack, count in re.findall(r"@\[([^,\n]+),(.*?)\]: (\d+)", open("bpftrace.txt", errors="replace").read(), re.S):
    lines = [line.strip() for line in stack.strip().split("\n") if line.strip()]
    counted[kind(comm), bool(lines) and bool(root.search(lines[-1]))] += int(count)
say("bpftrace", counted)
P
fi
