"""dramatiq on RabbitMQ, or on Redis where REDIS_URL names it: a worker imports this; `dramatiq_work.py COUNT` fills its queue.

A poisoned job is tried three times, without a pause worth the name, then dramatiq moves it to `dramatiq.XQ`.
"""

import os
import sys

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker

EVERY = int(os.environ["POISON_EVERY"])
REDIS = os.environ.get("REDIS_URL")
dramatiq.set_broker(RedisBroker(url=REDIS) if REDIS else RabbitmqBroker(url=os.environ["AMQP_URL"]))


@dramatiq.actor(queue_name="dramatiq", max_retries=2, min_backoff=1, max_backoff=2)
def work(number, body):
    if EVERY and number % EVERY == 0:
        raise ValueError("poison")


if __name__ == "__main__":
    body = "x" * 1000
    for number in range(int(sys.argv[1])):
        work.send(number, body)
