-- Texts and fields by their grams (dlo-store/src/grams.rs), a segment of blocks at a time. `low` and `top` are the places of
-- its oldest and newest letter when it was written; `blocks` lists its blocks, eight bytes each, little-endian.
CREATE TABLE segments (
    id     INTEGER PRIMARY KEY,
    low    INTEGER NOT NULL,
    top    INTEGER NOT NULL,
    blocks BLOB NOT NULL
);
-- The key is the segment's number and the chunk's first term (dlo-store/src/postings.rs).
CREATE TABLE grams (
    key  INTEGER PRIMARY KEY,
    data BLOB NOT NULL
);
-- The index of whole words is not asked any more; everything is indexed anew, behind the rows.
DROP TABLE deep;
INSERT OR IGNORE INTO unindexed SELECT id FROM blocks;
