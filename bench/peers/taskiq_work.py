"""taskiq on a Redis stream: workers import this; `taskiq_work.py COUNT` fills its stream.

A poisoned task is tried three times, without a pause; taskiq has no place for what it gives up, so then it is gone.
"""

import asyncio
import os
import sys

from taskiq import SimpleRetryMiddleware
from taskiq_redis import RedisStreamBroker

EVERY = int(os.environ["POISON_EVERY"])
broker = RedisStreamBroker(os.environ["REDIS_URL"], queue_name="taskiq", xread_count=500)
broker.add_middlewares(SimpleRetryMiddleware(default_retry_count=3))


@broker.task(task_name="work", retry_on_error=True)
async def work(number: int, body: str) -> None:
    if EVERY and number % EVERY == 0:
        raise ValueError("poison")


async def fill(count):
    # Makes the group as well, which would not see what was there before it.
    await broker.startup()
    body = "x" * 1000
    for start in range(0, count, 100):
        await asyncio.gather(*(work.kiq(number, body) for number in range(start, min(start + 100, count))))
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(fill(int(sys.argv[1])))
