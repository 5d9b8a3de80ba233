"""Drains a Redis stream into SQLite in batches: redis_stream.py URL STREAM DATABASE COUNT. Prints stored and seconds."""

import sys
import time

import redis

from store import Store, letter

url, stream, database, count = *sys.argv[1:4], int(sys.argv[4])
store = Store(database, every_row=False)
client = redis.Redis.from_url(url, decode_responses=True)
client.xgroup_create(stream, "peer", "0")
began = time.monotonic()
got = 0
while got < count:
    answer = client.xreadgroup("peer", "one", {stream: ">"}, count=500, block=5000)
    if not answer:
        break
    ids, letters = [], []
    for entry, fields in answer[0][1]:
        headers = {name.removeprefix("h:"): value for name, value in fields.items()}
        letters.append(letter(headers, fields.get("payload", "")))
        ids.append(entry)
    store.put(letters)
    pipeline = client.pipeline(transaction=False)
    pipeline.xack(stream, "peer", *ids)
    pipeline.xdel(stream, *ids)
    pipeline.execute()
    got += len(ids)
print(store.count(), time.monotonic() - began)
