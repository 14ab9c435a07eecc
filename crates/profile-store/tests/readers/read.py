"""Reads the Delta log of a table over S3 with chDB, DuckDB, deltalake and Dask, time after time.

Says a JSON object a line: which engine, the sums of counts and of values, rows, and seconds. Goes on until a line comes on standard
input; what begins after that is marked as last. docs/scaling.md has the packages and the command.
"""

import glob
import json
import os
import sys
import threading
import time

ENDPOINT, BUCKET, PREFIX = os.environ["ENDPOINT"], os.environ["BUCKET"], os.environ["PREFIX"]
KEY, SECRET = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
TABLE = f"s3://{BUCKET}/{PREFIX}"
OPTIONS = {
    "AWS_ENDPOINT_URL": ENDPOINT,
    "AWS_ALLOW_HTTP": "true",
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
}
SUMS = "SELECT sum(count) AS counts, sum(count * period) AS total, count(*) AS lines"


def chdb_reader():
    import chdb

    query = f"{SUMS} FROM deltaLake('{ENDPOINT}/{BUCKET}/{PREFIX}/', '{KEY}', '{SECRET}')"

    def read():
        row = json.loads(chdb.query(query, "JSONEachRow").bytes())
        return [int(row[name]) for name in ("counts", "total", "lines")]

    return read


def duckdb_reader():
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    # The packages of the extensions put them beside DuckDB's own.
    folder = os.path.join(os.path.dirname(os.path.dirname(duckdb.__file__)), "duckdb_ext")
    for name in ("httpfs", "delta"):
        found = glob.glob(f"{folder}/**/{name}.duckdb_extension", recursive=True)
        connection.execute(f"LOAD '{found[0]}'")
    host = ENDPOINT.removeprefix("http://")
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', ENDPOINT '{host}', "
        "URL_STYLE 'path', USE_SSL false, REGION 'us-east-1')"
    )

    def read():
        return [int(value) for value in connection.execute(f"{SUMS} FROM delta_scan('{TABLE}')").fetchone()]

    return read


def deltalake_reader():
    from deltalake import DeltaTable, QueryBuilder

    def read():
        table = DeltaTable(TABLE, storage_options=OPTIONS)
        batches = QueryBuilder().register("samples", table).execute(f"{SUMS} FROM samples")
        batch = batches.read_all()
        return [int(batch.column(at)[0].as_py()) for at in range(3)]

    return read


def dask_reader():
    import dask.dataframe as dd
    from dask.distributed import Client, LocalCluster
    from deltalake import DeltaTable

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    client = Client(cluster)
    storage = {"key": KEY, "secret": SECRET, "client_kwargs": {"endpoint_url": ENDPOINT}}

    def read():
        files = DeltaTable(TABLE, storage_options=OPTIONS).file_uris()
        frame = dd.read_parquet(files, columns=["count", "period"], storage_options=storage)
        sums = client.compute([frame["count"].sum(), (frame["count"] * frame["period"]).sum(), frame.shape[0]])
        return [int(value) for value in client.gather(sums)]

    return read


def main():
    readers = {
        "chdb": chdb_reader(),
        "duckdb": duckdb_reader(),
        "deltalake": deltalake_reader(),
        "dask": dask_reader(),
    }
    ending = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), ending.set()), daemon=True).start()
    while True:
        is_last = ending.is_set()
        for name, read in readers.items():
            began = time.monotonic()
            count, value, rows = read()
            seconds = round(time.monotonic() - began, 3)
            said = {"reader": name, "count": count, "value": value, "rows": rows, "seconds": seconds, "is_last": is_last}
            print(json.dumps(said), flush=True)
        if is_last:
            return


if __name__ == "__main__":
    main()
