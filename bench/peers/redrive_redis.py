"""Moves a stream back with redis-py, 500 entries in one MULTI: redrive_redis.py URL FROM TO COUNT.

Prints moved, seconds, seconds of processor, megabytes.
"""

import resource
import sys
import time

import redis

url, source, target, count = *sys.argv[1:4], int(sys.argv[4])
client = redis.Redis.from_url(url)
moved = 0
began = time.monotonic()
while moved < count:
    entries = client.xrange(source, count=500)
    if not entries:
        break
    together = client.pipeline(transaction=True)
    for entry, fields in entries:
        together.xadd(target, fields)
        together.xdel(source, entry)
    together.execute()
    moved += len(entries)
spent = time.monotonic() - began
usage = resource.getrusage(resource.RUSAGE_SELF)
print(moved, spent, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
