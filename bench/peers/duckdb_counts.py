"""DuckDB over letters, for counts: duckdb_counts.py LETTERS DATABASE, with a line on standard input for each question.

LETTERS has a line for each: id, event type, class, status, milliseconds, error text, with tabs between. Says `ready` and the
bytes of its database; then, for each line, by type, class and status: how many causes, how many letters, and milliseconds.
"""

import os
import sys
import time

import duckdb

letters, database = sys.argv[1:]
db = duckdb.connect(database)
db.execute(
    """
    CREATE TABLE dead_letters AS SELECT * FROM read_csv(?, delim = '\t', quote = '', escape = '', header = false, columns = {
      'id': 'BIGINT', 'event_type': 'VARCHAR', 'error_class': 'VARCHAR', 'status': 'VARCHAR', 'failed_at': 'BIGINT',
      'error_message': 'VARCHAR'})
    """,
    [letters],
)
db.execute("CHECKPOINT")
print("ready", os.path.getsize(database), flush=True)
for _ in sys.stdin:
    began = time.perf_counter()
    rows = db.execute("SELECT event_type, error_class, status, count(*) FROM dead_letters GROUP BY 1, 2, 3").fetchall()
    spent = (time.perf_counter() - began) * 1e3
    print(len(rows), sum(row[3] for row in rows), spent, flush=True)
