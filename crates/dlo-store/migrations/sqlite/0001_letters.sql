-- Times are microseconds since 1970. Codes are the numbers of dlo-core's enums.
CREATE TABLE sources (
    name          TEXT PRIMARY KEY,
    captured      INTEGER NOT NULL,
    deaths        INTEGER NOT NULL,
    last_captured INTEGER
) WITHOUT ROWID;

-- Groups carry the words.
CREATE TABLE groups (
    id          INTEGER PRIMARY KEY,
    uid         BLOB NOT NULL UNIQUE,
    version     INTEGER NOT NULL,
    source      TEXT NOT NULL,
    queue       TEXT NOT NULL,
    consumer    TEXT,
    event_type  TEXT,
    error_class TEXT,
    template    TEXT NOT NULL,
    overflow    INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    owner       TEXT,
    first_seen  INTEGER NOT NULL,
    last_seen   INTEGER NOT NULL
);

CREATE TABLE counts (
    group_id INTEGER NOT NULL,
    status   INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    PRIMARY KEY (group_id, status)
) WITHOUT ROWID;

-- Letters carry numbers. The key is the place in time, so each index below is ordered newest last by itself.
-- The own_ columns are filled only in an overflow group, which speaks for many causes.
CREATE TABLE letters (
    place            INTEGER PRIMARY KEY,
    id               BLOB NOT NULL,
    group_id         INTEGER NOT NULL,
    status           INTEGER NOT NULL,
    block            INTEGER NOT NULL,
    slot             INTEGER NOT NULL,
    captured_at      INTEGER NOT NULL,
    failed_at        INTEGER NOT NULL,
    first_failed_at  INTEGER,
    received_at      INTEGER,
    published_at     INTEGER,
    broker           INTEGER NOT NULL,
    incarnation      TEXT,
    partition        INTEGER,
    log_offset       INTEGER,
    message_id       TEXT,
    msg_key          BLOB,
    content_type     TEXT,
    event_version    TEXT,
    correlation_id   TEXT,
    trace_id         TEXT,
    consumer_id      TEXT,
    consumer_version TEXT,
    attempts         INTEGER NOT NULL,
    error_message    TEXT NOT NULL,
    error_code       TEXT,
    reason           INTEGER NOT NULL,
    verdict          INTEGER NOT NULL,
    rule             TEXT,
    payload_size     INTEGER NOT NULL,
    replays          INTEGER NOT NULL,
    deaths           INTEGER NOT NULL,
    replay_id        TEXT,
    own_queue        TEXT,
    own_consumer     TEXT,
    own_type         TEXT,
    own_class        TEXT
);
CREATE UNIQUE INDEX letters_by_id ON letters (id);
CREATE INDEX letters_by_status ON letters (status);
CREATE INDEX letters_by_group ON letters (group_id, status);

-- How a death that is here already is recognised.
CREATE TABLE origins (
    key    BLOB PRIMARY KEY,
    letter BLOB NOT NULL
) WITHOUT ROWID;

-- Payloads apart, compressed; `places` lists the letters of a block, eight bytes each, little-endian, zero for none.
CREATE TABLE blocks (
    id     INTEGER PRIMARY KEY,
    places BLOB NOT NULL,
    data   BLOB NOT NULL
);
CREATE TABLE unindexed (block INTEGER PRIMARY KEY);

-- Tokens are made by us (dlo-core/src/words.rs); the tokenizer only cuts at spaces.
CREATE VIRTUAL TABLE quick USING fts5 (tokens, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
CREATE VIRTUAL TABLE deep USING fts5 (tokens, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
-- Segments are merged eight at a time instead of four, since words are written more often than read, and always a little
-- with each insert: a merge all at once would hold up the letters behind it.
INSERT INTO quick (quick, rank) VALUES ('automerge', 8);
INSERT INTO quick (quick, rank) VALUES ('crisismerge', 64);
INSERT INTO deep (deep, rank) VALUES ('automerge', 8);
INSERT INTO deep (deep, rank) VALUES ('crisismerge', 64);

-- Every death of a letter that died more than once; the only death of the others stands in the letter's row.
CREATE TABLE deaths (
    letter           BLOB NOT NULL,
    number           INTEGER NOT NULL,
    block            INTEGER NOT NULL,
    slot             INTEGER NOT NULL,
    at               INTEGER NOT NULL,
    captured_at      INTEGER NOT NULL,
    broker           INTEGER NOT NULL,
    queue            TEXT NOT NULL,
    incarnation      TEXT,
    partition        INTEGER,
    log_offset       INTEGER,
    message_id       TEXT,
    consumer         TEXT,
    consumer_id      TEXT,
    consumer_version TEXT,
    attempts         INTEGER NOT NULL,
    error_class      TEXT,
    error_message    TEXT NOT NULL,
    error_code       TEXT,
    reason           INTEGER NOT NULL,
    verdict          INTEGER NOT NULL,
    rule             TEXT,
    replay_id        TEXT,
    PRIMARY KEY (letter, number)
) WITHOUT ROWID;

CREATE TABLE audit (
    seq       INTEGER PRIMARY KEY AUTOINCREMENT,
    at        INTEGER NOT NULL,
    event     INTEGER NOT NULL,
    author    TEXT NOT NULL,
    reason    TEXT,
    reference TEXT,
    source    TEXT,
    letter    BLOB,
    count     INTEGER NOT NULL
);
CREATE INDEX audit_by_letter ON audit (letter) WHERE letter IS NOT NULL;

CREATE TABLE checkpoints (
    source      TEXT NOT NULL,
    incarnation TEXT NOT NULL,
    partition   INTEGER NOT NULL,
    next        INTEGER NOT NULL,
    PRIMARY KEY (source, incarnation, partition)
) WITHOUT ROWID;

CREATE TABLE leases (
    name   TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until  INTEGER NOT NULL,
    fence  INTEGER NOT NULL
) WITHOUT ROWID;
