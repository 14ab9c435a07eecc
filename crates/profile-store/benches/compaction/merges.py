"""The merges of benches/compaction over the same files, by DuckDB: python3 merges.py FOLDER (PyPI duckdb==1.4.4)."""

import glob
import os
import sys
import time

import duckdb

MERGES = {
    "samples": "sum(count), sum(count * period)",
    "totals": "sum(count), sum(value)",
}


def main(folder):
    connection = duckdb.connect()
    connection.execute(f"SET threads = {os.cpu_count()}")
    for kind, sums in MERGES.items():
        files = sorted(glob.glob(f"{folder}/out/*/*/*.{kind}.*.parquet"))
        query = (
            f"SELECT count(*), sum(c) FROM (SELECT stack_id, {sums.replace('sum(count),', 'sum(count) AS c,')} "
            f"FROM read_parquet({files!r}) WHERE service = 'service-0' GROUP BY stack_id)"
        )
        best = (float("inf"), float("inf"))
        for _ in range(5):
            begun, processor = time.perf_counter(), time.process_time()
            stacks, samples = connection.execute(query).fetchone()
            took = (time.perf_counter() - begun, time.process_time() - processor)
            best = tuple(map(min, best, took))
        print(f"{kind}: {stacks} stacks of {samples} samples, best of 5: {best[0]:.3f} s, {best[1]:.2f} CPU s")


main(sys.argv[1])
