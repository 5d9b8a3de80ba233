"""Drains a Kafka topic into SQLite in batches: kafka_topic.py BOOTSTRAP TOPIC DATABASE COUNT. Prints stored and seconds."""

import sys
import time
import uuid

from confluent_kafka import Consumer

from store import Store, letter

bootstrap, topic, database, count = *sys.argv[1:4], int(sys.argv[4])
store = Store(database, every_row=False)
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": f"peer-{uuid.uuid4()}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer.subscribe([topic])
first = consumer.consume(1, timeout=60)
began = time.monotonic()
got = 0
messages = first
while got < count and messages:
    letters = []
    for message in messages:
        headers = {name: value.decode() for name, value in message.headers() or []}
        letters.append(letter(headers, message.value().decode()))
    store.put(letters)
    consumer.commit(asynchronous=False)
    got += len(letters)
    if got < count:
        messages = consumer.consume(min(1000, count - got), timeout=10)
print(store.count(), time.monotonic() - began)
consumer.close()
