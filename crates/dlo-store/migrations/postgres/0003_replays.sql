-- A replay: a plan and its run. Settings, approvals, exclusions and doubts are JSON.
CREATE TABLE replays (
    seq              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id               uuid NOT NULL UNIQUE,
    parent           bigint,
    ordinal          bigint NOT NULL,
    children         bigint NOT NULL,
    state            smallint NOT NULL,
    query            text,
    source           text,
    event_type       text,
    error_class      text,
    cause            smallint,
    settings         text NOT NULL,
    author           text NOT NULL,
    reason           text NOT NULL,
    created_at       bigint NOT NULL,
    expires_at       bigint NOT NULL,
    started_at       bigint,
    ended_at         bigint,
    stop_reason      text,
    stop_letters     text NOT NULL,
    approvals        text NOT NULL,
    approvals_needed smallint NOT NULL,
    by_class         text NOT NULL,
    excluded         text NOT NULL,
    doubts           text NOT NULL,
    mark             text,
    -- Items below this number were claimed or found short.
    next_claim       bigint NOT NULL DEFAULT 0
);
CREATE INDEX replays_by_parent ON replays (parent, ordinal);
CREATE INDEX replays_by_state ON replays (state, seq);

-- The frozen letters. `lane` stands for the key where order matters, and `waits` says that an earlier one of its lane has
-- no good end yet. Indexes hold only what is looked for: what is in hand, what is sent, what came back.
CREATE TABLE replay_items (
    replay     bigint NOT NULL,
    number     bigint NOT NULL,
    letter     uuid NOT NULL,
    state      smallint NOT NULL,
    lane       bigint,
    waits      boolean NOT NULL,
    at         bigint,
    sent_at    bigint,
    partition  integer,
    log_offset bigint,
    note       text,
    PRIMARY KEY (replay, number)
);
CREATE INDEX items_by_letter ON replay_items (letter);
CREATE INDEX items_by_lane ON replay_items (replay, lane, number) WHERE lane IS NOT NULL;
CREATE INDEX items_in_hand ON replay_items (replay, state, waits, number) WHERE state IN (2, 3, 9);
CREATE INDEX items_sent ON replay_items (replay, sent_at, number) WHERE state = 4;
CREATE INDEX items_returned ON replay_items (replay, at, number) WHERE state = 7;

CREATE TABLE replay_counts (
    replay bigint NOT NULL,
    state  smallint NOT NULL,
    n      bigint NOT NULL,
    PRIMARY KEY (replay, state)
);

-- Letters that only point to a record which could not be fetched: there is nothing to send.
CREATE TABLE pointers (letter uuid PRIMARY KEY);

-- Corrected messages beside the originals; `message` is a block of one.
CREATE TABLE repairs (
    letter     uuid NOT NULL,
    number     bigint NOT NULL,
    msg_key    bytea,
    message    bytea NOT NULL,
    author     text NOT NULL,
    reason     text,
    expression text,
    at         bigint NOT NULL,
    active     boolean NOT NULL,
    PRIMARY KEY (letter, number)
);
ALTER TABLE repairs ALTER COLUMN message SET STORAGE EXTERNAL;
