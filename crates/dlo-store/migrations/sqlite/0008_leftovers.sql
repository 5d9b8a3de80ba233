-- Segments whose chunks nobody asks: of a merge that is under way or was broken off, and those that were merged. They are
-- taken away a step at a time.
CREATE TABLE leftovers (segment INTEGER PRIMARY KEY);
-- Runs of a segment's blocks with the newest place of each (dlo-store/src/sqlite/parts.rs); empty: all blocks are one.
ALTER TABLE segments ADD COLUMN parts BLOB NOT NULL DEFAULT x'';
