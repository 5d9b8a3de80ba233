-- A number is found by what stands before it as well from here on (dlo-store/src/grams.rs), and segments grow to two million
-- letters: everything is indexed anew, behind the rows. `size` is how many blocks a segment has, `blocks` which, as runs
-- (dlo-store/src/sqlite/runs.rs); `parts` are runs of them with the newest place of each (dlo-store/src/sqlite/parts.rs).
DROP TABLE segments;
CREATE TABLE segments (
    id     INTEGER PRIMARY KEY,
    low    INTEGER NOT NULL,
    top    INTEGER NOT NULL,
    size   INTEGER NOT NULL,
    blocks BLOB NOT NULL,
    parts  BLOB NOT NULL
);
DELETE FROM grams;
INSERT OR IGNORE INTO unindexed SELECT id FROM blocks;
-- Segments whose chunks nobody asks: of a merge that is under way or was broken off, and those that were merged. They are
-- taken away a step at a time.
CREATE TABLE leftovers (segment INTEGER PRIMARY KEY);
