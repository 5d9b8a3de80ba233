-- Times are microseconds since 1970. Codes are the numbers of dlo-core's enums. Text is escaped: see postgres/text.rs.

-- A storm does not queue behind one row: what every batch changes is kept in shards, and read as their sum.
CREATE TABLE sources (
    name          text NOT NULL,
    shard         smallint NOT NULL,
    captured      bigint NOT NULL,
    deaths        bigint NOT NULL,
    last_captured bigint NOT NULL,
    PRIMARY KEY (name, shard)
);

-- Groups carry the words.
CREATE TABLE groups (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uid         uuid NOT NULL UNIQUE,
    version     bigint NOT NULL,
    source      text NOT NULL,
    queue       text NOT NULL,
    consumer    text,
    event_type  text,
    error_class text,
    template    text NOT NULL,
    overflow    boolean NOT NULL,
    status      smallint NOT NULL,
    owner       text
);
CREATE INDEX groups_by_source ON groups (source);

CREATE TABLE seen (
    group_id   bigint NOT NULL,
    shard      smallint NOT NULL,
    first_seen bigint NOT NULL,
    last_seen  bigint NOT NULL,
    PRIMARY KEY (group_id, shard)
);

CREATE TABLE counts (
    group_id bigint NOT NULL,
    status   smallint NOT NULL,
    shard    smallint NOT NULL,
    n        bigint NOT NULL,
    PRIMARY KEY (group_id, status, shard)
);

-- The lower bits of a place; comes round after two million.
CREATE SEQUENCE running MINVALUE 0 MAXVALUE 2097151 CYCLE;
CREATE SEQUENCE block_ids;

-- Letters carry numbers. The key is the place in time, so each index below ends in it and is ordered newest last.
-- The own_ columns are filled only in an overflow group, which speaks for many causes.
CREATE TABLE letters (
    place            bigint PRIMARY KEY,
    id               uuid NOT NULL,
    group_id         bigint NOT NULL,
    status           smallint NOT NULL,
    block            bigint NOT NULL,
    slot             integer NOT NULL,
    captured_at      bigint NOT NULL,
    failed_at        bigint NOT NULL,
    first_failed_at  bigint,
    received_at      bigint,
    published_at     bigint,
    broker           smallint NOT NULL,
    incarnation      text,
    partition        integer,
    log_offset       bigint,
    message_id       text,
    msg_key          bytea,
    content_type     text,
    event_version    text,
    correlation_id   text,
    trace_id         text,
    consumer_id      text,
    consumer_version text,
    attempts         bigint NOT NULL,
    error_message    text NOT NULL,
    error_code       text,
    reason           smallint NOT NULL,
    verdict          smallint NOT NULL,
    rule             text,
    payload_size     bigint NOT NULL,
    replays          bigint NOT NULL,
    deaths           bigint NOT NULL,
    replay_id        text,
    own_queue        text,
    own_consumer     text,
    own_type         text,
    own_class        text
);
CREATE UNIQUE INDEX letters_by_id ON letters (id);
CREATE INDEX letters_by_status ON letters (status, place);
CREATE INDEX letters_by_group ON letters (group_id, status, place);

-- How a death that is here already is recognised.
CREATE TABLE origins (
    key    bytea PRIMARY KEY,
    letter uuid NOT NULL
);

-- Payloads apart, compressed by us: PostgreSQL need not try again.
CREATE TABLE blocks (
    id   bigint PRIMARY KEY,
    data bytea NOT NULL
);
ALTER TABLE blocks ALTER COLUMN data SET STORAGE EXTERNAL;

-- Letters whose payload is not in `deep` yet; they are scanned.
CREATE TABLE unindexed (
    place bigint PRIMARY KEY,
    block bigint NOT NULL,
    slot  integer NOT NULL
);

-- Tokens are made by us (dlo-core/src/words.rs). Apart from the letters, so that a step does not write words anew.
-- What waits to be sorted into an index is read whole by every search, so less of it may wait than usual (in kB).
CREATE TABLE quick (
    place bigint PRIMARY KEY,
    words tsvector NOT NULL
);
CREATE INDEX quick_words ON quick USING gin (words) WITH (gin_pending_list_limit = 1024);
CREATE TABLE deep (
    place bigint PRIMARY KEY,
    words tsvector NOT NULL
);
CREATE INDEX deep_words ON deep USING gin (words) WITH (gin_pending_list_limit = 1024);

-- Every death of a letter that died more than once; the only death of the others stands in the letter's row.
CREATE TABLE deaths (
    letter           uuid NOT NULL,
    number           bigint NOT NULL,
    block            bigint NOT NULL,
    slot             integer NOT NULL,
    at               bigint NOT NULL,
    captured_at      bigint NOT NULL,
    broker           smallint NOT NULL,
    queue            text NOT NULL,
    incarnation      text,
    partition        integer,
    log_offset       bigint,
    message_id       text,
    consumer         text,
    consumer_id      text,
    consumer_version text,
    attempts         bigint NOT NULL,
    error_class      text,
    error_message    text NOT NULL,
    error_code       text,
    reason           smallint NOT NULL,
    verdict          smallint NOT NULL,
    rule             text,
    replay_id        text,
    PRIMARY KEY (letter, number)
);

CREATE TABLE audit (
    seq       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        bigint NOT NULL,
    event     smallint NOT NULL,
    author    text NOT NULL,
    reason    text,
    reference text,
    source    text,
    letter    uuid,
    count     bigint NOT NULL
);
CREATE INDEX audit_by_letter ON audit (letter, seq) WHERE letter IS NOT NULL;

CREATE TABLE checkpoints (
    source      text NOT NULL,
    incarnation text NOT NULL,
    partition   integer NOT NULL,
    next        bigint NOT NULL,
    PRIMARY KEY (source, incarnation, partition)
);

CREATE TABLE leases (
    name   text PRIMARY KEY,
    holder text NOT NULL,
    until  bigint NOT NULL,
    fence  bigint NOT NULL
);
