-- What made a group out of the letters of another one: whose (by uid), by which condition, and what it is called.
ALTER TABLE groups ADD COLUMN split_from BLOB;
ALTER TABLE groups ADD COLUMN split_where TEXT;
ALTER TABLE groups ADD COLUMN split_title TEXT;

-- The conditions that hold, in the order of their making. Letters of `group_id` before the place `next` are yet to be held
-- against them; none are when it is null.
CREATE TABLE splits (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id INTEGER NOT NULL,
    split_id INTEGER NOT NULL UNIQUE,
    at       INTEGER NOT NULL,
    author   TEXT NOT NULL,
    next     INTEGER
);
CREATE INDEX splits_by_group ON splits (group_id);
