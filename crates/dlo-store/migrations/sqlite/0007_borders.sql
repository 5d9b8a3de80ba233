-- A number is found by what stands before it as well from here on (dlo-store/src/grams.rs): everything is indexed anew, behind
-- the rows.
DELETE FROM segments;
DELETE FROM grams;
INSERT OR IGNORE INTO unindexed SELECT id FROM blocks;
