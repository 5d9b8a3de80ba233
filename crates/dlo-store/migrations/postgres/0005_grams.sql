-- Texts are found by the grams of their words from here on: everything is indexed anew, behind the rows.
TRUNCATE deep;
INSERT INTO unindexed SELECT place, block, slot FROM letters ON CONFLICT DO NOTHING;
