-- Where people stand with a group. `merged_into` is the uid of the head that speaks for it.
ALTER TABLE groups
    ADD COLUMN since          bigint,
    ADD COLUMN resolved_in    text,
    ADD COLUMN regressed_at   bigint,
    ADD COLUMN snooze_until   bigint,
    ADD COLUMN snooze_letters bigint,
    ADD COLUMN snooze_from    smallint,
    ADD COLUMN owner_by_hand  boolean NOT NULL DEFAULT false,
    ADD COLUMN assignee       text,
    ADD COLUMN merged_into    uuid;
CREATE INDEX groups_by_head ON groups (merged_into) WHERE merged_into IS NOT NULL;

ALTER TABLE audit ADD COLUMN group_uid uuid;
CREATE INDEX audit_by_group ON audit (group_uid, seq) WHERE group_uid IS NOT NULL;

-- Letters that arrived, by group and bucket of time; see dlo-core/src/trend.rs. In shards, as counts are.
CREATE TABLE trend (
    group_id   bigint NOT NULL,
    resolution smallint NOT NULL,
    bucket     bigint NOT NULL,
    shard      smallint NOT NULL,
    n          bigint NOT NULL,
    PRIMARY KEY (group_id, resolution, bucket, shard)
);

-- What people write beside a group. It is the group's own, merged or not.
CREATE TABLE notes (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id bigint NOT NULL,
    at       bigint NOT NULL,
    author   text NOT NULL,
    text     text NOT NULL
);
CREATE INDEX notes_by_group ON notes (group_id);
CREATE TABLE links (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id bigint NOT NULL,
    at       bigint NOT NULL,
    author   text NOT NULL,
    title    text NOT NULL,
    url      text NOT NULL
);
CREATE INDEX links_by_group ON links (group_id);
CREATE TABLE runbooks (
    group_id bigint PRIMARY KEY,
    version  bigint NOT NULL,
    at       bigint NOT NULL,
    author   text NOT NULL,
    text     text NOT NULL
);

CREATE TABLE deploys (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       bigint NOT NULL,
    version  text NOT NULL,
    consumer text,
    source   text,
    url      text,
    author   text NOT NULL
);
CREATE INDEX deploys_by_time ON deploys (at);

-- The owner of a shared view is empty.
CREATE TABLE views (
    owner  text NOT NULL,
    kind   smallint NOT NULL,
    name   text NOT NULL,
    query  text NOT NULL,
    author text NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (owner, kind, name)
);
