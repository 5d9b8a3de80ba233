"""Drains a RabbitMQ queue into SQLite: rabbitmq.py URL QUEUE DATABASE naive|batch COUNT. Prints stored and seconds."""

import sys
import time

import pika

from store import Store, letter

url, queue, database, manner, count = *sys.argv[1:5], int(sys.argv[5])
batch = 1 if manner == "naive" else 500
store = Store(database, every_row=manner == "naive")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.basic_qos(prefetch_count=max(100, 2 * batch))
began = time.monotonic()
letters, got = [], 0
for method, properties, body in channel.consume(queue, inactivity_timeout=10):
    if method is None:
        break
    letters.append(letter(properties.headers or {}, body.decode()))
    got += 1
    if len(letters) == batch or got == count:
        store.put(letters)
        channel.basic_ack(method.delivery_tag, multiple=True)
        letters = []
    if got == count:
        break
print(store.count(), time.monotonic() - began)
channel.cancel()
connection.close()
