"""The store of the Python peers: one SQLite table, as a hand-written drain script keeps its dead letters."""

import sqlite3
import time


class Store:
    def __init__(self, path, every_row):
        """every_row: commit each letter by itself, as the simplest scripts do; else WAL and one commit a batch."""
        self.db = sqlite3.connect(path)
        if not every_row:
            self.db.execute("PRAGMA journal_mode = WAL")
            self.db.execute("PRAGMA synchronous = FULL")
        self.db.executescript(
            """
            CREATE TABLE IF NOT EXISTS dead_letters (
              id INTEGER PRIMARY KEY, event_type TEXT, error_class TEXT, error_message TEXT, attempts INTEGER,
              status TEXT, payload TEXT, failed_at INTEGER);
            CREATE INDEX IF NOT EXISTS by_status ON dead_letters (status, failed_at);
            CREATE INDEX IF NOT EXISTS by_type ON dead_letters (event_type, failed_at);
            """
        )

    def put(self, letters):
        now = int(time.time() * 1000)
        self.db.executemany(
            "INSERT INTO dead_letters (event_type, error_class, error_message, attempts, status, payload, failed_at)"
            " VALUES (?, ?, ?, ?, 'open', ?, ?)",
            [(*letter, now) for letter in letters],
        )
        self.db.commit()

    def count(self):
        return self.db.execute("SELECT count(*) FROM dead_letters").fetchone()[0]


def letter(headers, body):
    """One row of a message: its four headers and its body as text."""
    return (headers.get("event_type"), headers.get("error_class"), headers.get("error_message"), int(headers.get("attempts") or 0), body)
