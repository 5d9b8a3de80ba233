-- Letters that may repeat another letter (dlo-core/src/suspect.rs): `related` is the one that was here first.
CREATE TABLE suspects (
    letter  BLOB PRIMARY KEY,
    related BLOB NOT NULL,
    kind    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX suspects_by_related ON suspects (related);

-- The first letter with a death id, of letters without coordinates. `key` is a hash of source and death id.
CREATE TABLE death_ids (
    key             BLOB PRIMARY KEY,
    letter          BLOB NOT NULL,
    awaits_original INTEGER NOT NULL
) WITHOUT ROWID;

-- Hashes by which a message is recognised that comes back without our headers (dlo-core/src/replay/returns.rs). Rows of a
-- replay are deleted some time after its end.
CREATE TABLE sent_marks (
    replay INTEGER NOT NULL,
    mark   INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (replay, mark, number)
) WITHOUT ROWID;

-- Items that died again, and those that probably did.
DROP INDEX items_returned;
CREATE INDEX items_came_back ON replay_items (replay, at, number) WHERE state IN (7, 15);
