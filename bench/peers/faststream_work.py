"""FastStream on RabbitMQ: faststream_work.py URL QUEUE COUNT works off a queue that is already filled.

It has no retries of its own: a poisoned message is refused at once, and the broker moves it to the queue's dead letters.
Prints handled, parked, seconds, seconds of processor, megabytes.
"""

import asyncio
import logging
import resource
import sys
import time

import uvloop
from faststream import AckPolicy
from faststream.rabbit import Channel, RabbitBroker, RabbitMessage, RabbitQueue

url, queue, count = *sys.argv[1:3], int(sys.argv[3])
logging.disable(logging.CRITICAL)
broker = RabbitBroker(url, logger=None, default_channel=Channel(prefetch_count=500), graceful_timeout=10)
done = asyncio.Event()
began = None
handled = parked = 0


def processor():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@broker.subscriber(RabbitQueue(queue, declare=False), ack_policy=AckPolicy.REJECT_ON_ERROR)
async def work(message: RabbitMessage):
    global began, handled, parked
    began = began or (time.monotonic(), processor())
    poison = message.body[:1] != b"{"
    if poison:
        parked += 1
    else:
        handled += 1
    if handled + parked == count:
        done.set()
    if poison:
        raise ValueError("poison")


async def main():
    await broker.start()
    await asyncio.wait_for(done.wait(), 180)
    # Settles what is under way.
    await broker.stop()
    clock, before = began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(handled, parked, time.monotonic() - clock, processor() - before, peak)


uvloop.run(main())
