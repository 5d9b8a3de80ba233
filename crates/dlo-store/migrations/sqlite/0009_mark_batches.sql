-- Marks of sent messages as they were intended, a batch a row: pairs of mark and number, eight bytes each, little-endian.
-- They go to `sent_marks` when a letter has to be compared with them (dlo-store/src/sqlite/replays/marks.rs).
CREATE TABLE mark_batches (
    row    INTEGER PRIMARY KEY,
    replay INTEGER NOT NULL,
    marks  BLOB NOT NULL
);
CREATE INDEX mark_batches_by_replay ON mark_batches (replay);
