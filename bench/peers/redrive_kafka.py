"""Moves a topic back with confluent-kafka and delivery reports: redrive_kafka.py BOOTSTRAP FROM TO COUNT.

Offsets are committed when everything before them was reported delivered. Prints moved, seconds, seconds of processor,
megabytes. The clock starts with the first record: joining a group takes seconds.
"""

import resource
import sys
import time
import uuid

from confluent_kafka import Consumer, Producer

bootstrap, source, target, count = *sys.argv[1:4], int(sys.argv[4])
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": f"redrive-{uuid.uuid4()}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5})
consumer.subscribe([source])
reported, failed = 0, []


def report(error, _message):
    global reported
    if error is None:
        reported += 1
    else:
        failed.append(error)


records = consumer.consume(1, timeout=60)
began = time.monotonic()
taken = 0
while records:
    for record in records:
        producer.produce(target, record.value(), record.key(), headers=record.headers(), on_delivery=report)
    producer.flush()
    assert not failed, failed[0]
    consumer.commit(asynchronous=False)
    taken += len(records)
    if taken >= count:
        break
    records = consumer.consume(min(1000, count - taken), timeout=10)
spent = time.monotonic() - began
usage = resource.getrusage(resource.RUSAGE_SELF)
print(reported, spent, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
consumer.close()
