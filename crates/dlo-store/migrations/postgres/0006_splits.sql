-- What made a group out of the letters of another one: whose (by uid), by which condition, and what it is called.
ALTER TABLE groups ADD COLUMN split_from uuid, ADD COLUMN split_where text, ADD COLUMN split_title text;

-- The conditions that hold, in the order of their making. Letters of `group_id` before the place `next` are yet to be held
-- against them; none are when it is null.
CREATE TABLE splits (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id bigint NOT NULL,
    split_id bigint NOT NULL UNIQUE,
    at       bigint NOT NULL,
    author   text NOT NULL,
    next     bigint
);
CREATE INDEX splits_by_group ON splits (group_id);
