"""Moves dead letters back with pika, one confirm a message: redrive_rabbitmq_pika.py URL FROM TO COUNT.

Each is published, confirmed and acknowledged before the next. Prints moved, seconds, seconds of processor, megabytes.
"""

import resource
import sys
import time

import pika

url, source, target, count = *sys.argv[1:4], int(sys.argv[4])
connection = pika.BlockingConnection(pika.URLParameters(url))
incoming = connection.channel()
incoming.basic_qos(prefetch_count=100)
outgoing = connection.channel()
# From now on a publish returns when it is confirmed, and raises what was refused or returned.
outgoing.confirm_delivery()
moved = 0
began = time.monotonic()
for method, properties, body in incoming.consume(source, inactivity_timeout=10):
    if method is None:
        break
    outgoing.basic_publish("", target, body, properties, mandatory=True)
    incoming.basic_ack(method.delivery_tag)
    moved += 1
    if moved == count:
        break
spent = time.monotonic() - began
usage = resource.getrusage(resource.RUSAGE_SELF)
print(moved, spent, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
# The end of the consumer is written behind the acks, and has an answer: a quorum queue has them all when it comes.
incoming.cancel()
connection.close()
