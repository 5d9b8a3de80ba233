"""Drains a JetStream subject into SQLite in batches: nats_stream.py URL SUBJECT DATABASE COUNT. Prints stored and seconds."""

import asyncio
import sys
import time

import nats
import uvloop
from nats.js.api import ConsumerConfig

from store import Store, letter

url, subject, database, count = *sys.argv[1:4], int(sys.argv[4])


async def main():
    store = Store(database, every_row=False)
    client = await nats.connect(url)
    # Its default is a thousand that are not acknowledged, which would hold back every second batch.
    config = ConsumerConfig(max_ack_pending=10_000)
    consumer = await client.jetstream().pull_subscribe(subject, config=config)
    began = time.monotonic()
    got = 0
    while got < count:
        # An end of the stream before the count is reached raises.
        messages = await consumer.fetch(min(1000, count - got), timeout=10)
        store.put([letter(message.headers or {}, message.data.decode()) for message in messages])
        for message in messages:
            await message.ack()
        got += len(messages)
    # An ack has no answer: the server has read them all when it answers what was sent behind them.
    await client.flush()
    print(store.count(), time.monotonic() - began)
    await client.close()


uvloop.run(main())
