-- A replay: a plan and its run. Settings, approvals, exclusions and doubts are JSON.
CREATE TABLE replays (
    row              INTEGER PRIMARY KEY,
    id               BLOB NOT NULL UNIQUE,
    parent           INTEGER,
    ordinal          INTEGER NOT NULL,
    children         INTEGER NOT NULL,
    state            INTEGER NOT NULL,
    query            TEXT,
    source           TEXT,
    event_type       TEXT,
    error_class      TEXT,
    cause            INTEGER,
    settings         TEXT NOT NULL,
    author           TEXT NOT NULL,
    reason           TEXT NOT NULL,
    created_at       INTEGER NOT NULL,
    expires_at       INTEGER NOT NULL,
    started_at       INTEGER,
    ended_at         INTEGER,
    stop_reason      TEXT,
    stop_letters     TEXT NOT NULL,
    approvals        TEXT NOT NULL,
    approvals_needed INTEGER NOT NULL,
    by_class         TEXT NOT NULL,
    excluded         TEXT NOT NULL,
    doubts           TEXT NOT NULL,
    mark             TEXT,
    -- Items below this number were claimed or found short.
    next_claim       INTEGER NOT NULL
);
CREATE INDEX replays_by_parent ON replays (parent, ordinal);
CREATE INDEX replays_by_state ON replays (state);

-- Members are written a chunk at a time and their replay last. What stands here was begun and is not a plan yet.
CREATE TABLE drafts (
    row INTEGER PRIMARY KEY,
    id  BLOB NOT NULL
);

-- The frozen letters. `lane` stands for the key where order matters, and `waits` says that an earlier one of its lane has
-- no good end yet. Indexes hold only what is looked for: what is in hand, what is sent, what came back.
CREATE TABLE replay_items (
    replay     INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    letter     BLOB NOT NULL,
    state      INTEGER NOT NULL,
    lane       INTEGER,
    waits      INTEGER NOT NULL,
    at         INTEGER,
    sent_at    INTEGER,
    partition  INTEGER,
    log_offset INTEGER,
    note       TEXT,
    PRIMARY KEY (replay, number)
) WITHOUT ROWID;
CREATE INDEX items_by_letter ON replay_items (letter);
CREATE INDEX items_by_lane ON replay_items (replay, lane, number) WHERE lane IS NOT NULL;
CREATE INDEX items_in_hand ON replay_items (replay, state, waits, number) WHERE state IN (2, 3, 9);
CREATE INDEX items_sent ON replay_items (replay, sent_at, number) WHERE state = 4;
CREATE INDEX items_returned ON replay_items (replay, at, number) WHERE state = 7;

CREATE TABLE replay_counts (
    replay INTEGER NOT NULL,
    state  INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (replay, state)
) WITHOUT ROWID;

-- Letters that only point to a record which could not be fetched: there is nothing to send.
CREATE TABLE pointers (letter BLOB PRIMARY KEY) WITHOUT ROWID;

-- Corrected messages beside the originals; `message` is a block of one.
CREATE TABLE repairs (
    letter     BLOB NOT NULL,
    number     INTEGER NOT NULL,
    msg_key    BLOB,
    message    BLOB NOT NULL,
    author     TEXT NOT NULL,
    reason     TEXT,
    expression TEXT,
    at         INTEGER NOT NULL,
    active     INTEGER NOT NULL,
    PRIMARY KEY (letter, number)
) WITHOUT ROWID;
