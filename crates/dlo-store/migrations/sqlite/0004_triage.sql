-- Where people stand with a group. `merged_into` is the uid of the head that speaks for it.
ALTER TABLE groups ADD COLUMN since INTEGER;
ALTER TABLE groups ADD COLUMN resolved_in TEXT;
ALTER TABLE groups ADD COLUMN regressed_at INTEGER;
ALTER TABLE groups ADD COLUMN snooze_until INTEGER;
ALTER TABLE groups ADD COLUMN snooze_letters INTEGER;
ALTER TABLE groups ADD COLUMN snooze_from INTEGER;
ALTER TABLE groups ADD COLUMN owner_by_hand INTEGER NOT NULL DEFAULT 0;
ALTER TABLE groups ADD COLUMN assignee TEXT;
ALTER TABLE groups ADD COLUMN merged_into BLOB;

ALTER TABLE audit ADD COLUMN group_uid BLOB;
CREATE INDEX audit_by_group ON audit (group_uid) WHERE group_uid IS NOT NULL;

-- Letters that arrived, by group and bucket of time; see dlo-core/src/trend.rs.
CREATE TABLE trend (
    group_id   INTEGER NOT NULL,
    resolution INTEGER NOT NULL,
    bucket     INTEGER NOT NULL,
    n          INTEGER NOT NULL,
    PRIMARY KEY (group_id, resolution, bucket)
) WITHOUT ROWID;

-- What people write beside a group. It is the group's own, merged or not.
CREATE TABLE notes (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    author   TEXT NOT NULL,
    text     TEXT NOT NULL
);
CREATE INDEX notes_by_group ON notes (group_id);
CREATE TABLE links (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    author   TEXT NOT NULL,
    title    TEXT NOT NULL,
    url      TEXT NOT NULL
);
CREATE INDEX links_by_group ON links (group_id);
CREATE TABLE runbooks (
    group_id INTEGER PRIMARY KEY,
    version  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    author   TEXT NOT NULL,
    text     TEXT NOT NULL
);

CREATE TABLE deploys (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    version  TEXT NOT NULL,
    consumer TEXT,
    source   TEXT,
    url      TEXT,
    author   TEXT NOT NULL
);
CREATE INDEX deploys_by_time ON deploys (at);

-- The owner of a shared view is empty.
CREATE TABLE views (
    owner  TEXT NOT NULL,
    kind   INTEGER NOT NULL,
    name   TEXT NOT NULL,
    query  TEXT NOT NULL,
    author TEXT NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (owner, kind, name)
) WITHOUT ROWID;
