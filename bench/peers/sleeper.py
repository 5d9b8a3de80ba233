"""Publishes to a stream at a rate, as a loop that sleeps does: sleeper.py URL STREAM RATE COUNT.

It sleeps until the next message is due by the clock since the start, so that what a publish takes does not add up. Prints
sent, seconds, seconds of processor, megabytes.
"""

import resource
import sys
import time

import redis

url, stream, rate, count = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4])
client = redis.Redis.from_url(url)
body = "x" * 1000
client.ping()
began = time.monotonic()
for number in range(count):
    early = began + number / rate - time.monotonic()
    if early > 0:
        time.sleep(early)
    client.xadd(stream, {"payload": body})
spent = time.monotonic() - began
usage = resource.getrusage(resource.RUSAGE_SELF)
print(count, spent, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
