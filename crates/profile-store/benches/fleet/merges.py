"""The merges of `main.rs` over the same files, by DuckDB: python3 merges.py FOLDER SERVICE (PyPI duckdb==1.4.4).

FOLDER is what `compaction` or `queries` left there. SERVICE is `service-0` of the first and `checkout` of the second."""

import glob
import os
import sys
import time

import duckdb

MERGES = {
    "samples": "sum(count) AS c, sum(count * period)",
    "totals": "sum(count) AS c, sum(value)",
}
TRIES = 5


def best_of(connection, query):
    best = (float("inf"), float("inf"))
    for _ in range(TRIES):
        begun, processor = time.perf_counter(), time.process_time()
        found = connection.execute(query).fetchone()
        took = (time.perf_counter() - begun, time.process_time() - processor)
        best = tuple(map(min, best, took))
    return found, best


def main(folder, service):
    folder = folder if os.path.isdir(f"{folder}/out") else f"{folder}/table"
    connection = duckdb.connect()
    connection.execute(f"SET threads = {os.cpu_count()}")
    hours = sorted(glob.glob(f"{folder}/out/*/*"))
    date, hour = hours[-1].split("/")[-2:]
    within = f" AND ts >= TIMESTAMPTZ '{date} {hour}:01:00+00' AND ts < TIMESTAMPTZ '{date} {hour}:00:00+00' + INTERVAL 1 HOUR"
    questions = [
        ("samples", "59 minutes", hours[-1:], within),
        ("samples", "1 h", hours[-1:], ""),
        ("totals", "1 h", hours[-1:], ""),
        ("totals", "24 h", hours[-24:], ""),
        ("totals", "all hours", hours, ""),
    ]
    for kind, span, of, condition in questions:
        files = [path for hour in of for path in glob.glob(f"{hour}/*.{kind}.*.parquet")]
        if not files:
            continue
        query = (
            f"SELECT count(*), sum(c) FROM (SELECT stack_id, {MERGES[kind]} FROM read_parquet({files!r}) "
            f"WHERE service = '{service}' AND type = 'cpu'{condition} GROUP BY stack_id)"
        )
        (stacks, samples), best = best_of(connection, query)
        print(
            f"{kind}, {span}: {stacks} stacks of {samples} samples in {len(files)} files, "
            f"best of {TRIES}: {best[0]:.3f} s, {best[1]:.2f} CPU s"
        )


main(*sys.argv[1:3])
