-- Texts are found by the grams of their words from here on: everything is indexed anew, behind the rows. A table of another
-- name, so that a server of an older version, which still runs, cannot write whole words among them: its indexing fails,
-- and the marks stay.
DROP TABLE deep;
CREATE TABLE grams (
    place bigint PRIMARY KEY,
    words tsvector NOT NULL
);
CREATE INDEX grams_words ON grams USING gin (words) WITH (gin_pending_list_limit = 1024);
INSERT INTO unindexed SELECT place, block, slot FROM letters ON CONFLICT DO NOTHING;
