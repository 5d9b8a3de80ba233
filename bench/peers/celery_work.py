"""Celery on RabbitMQ, acknowledging late: a worker imports this; `celery_work.py COUNT` fills its queue.

A poisoned task is tried three times, without a pause, then refused: the broker moves it to `celery.dlq`.
"""

import os
import sys

from celery import Celery
from celery.exceptions import Reject
from kombu import Exchange, Queue

EVERY = int(os.environ["POISON_EVERY"])
DEAD = Queue("celery.dlq", Exchange("celery.dlq", type="direct"), routing_key="celery.dlq", durable=True)
WORK = Queue(
    "celery",
    Exchange("celery", type="direct"),
    routing_key="celery",
    durable=True,
    queue_arguments={"x-dead-letter-exchange": "celery.dlq", "x-dead-letter-routing-key": "celery.dlq"},
)
app = Celery("celery_work", broker=os.environ["AMQP_URL"])
app.conf.update(
    task_queues=[WORK],
    task_default_queue="celery",
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=64,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
)


@app.task(bind=True, max_retries=2)
def work(self, number, body):
    if EVERY and number % EVERY == 0:
        if self.request.retries == 2:
            raise Reject("poison", requeue=False)
        raise self.retry(countdown=0)


if __name__ == "__main__":
    with app.connection_for_write() as connection:
        for queue in (DEAD, WORK):
            queue(connection.default_channel).declare()
    # As the module that the worker imports, so that the task has the same name.
    from celery_work import work as task

    body = "x" * 1000
    with task.app.producer_pool.acquire(block=True) as producer:
        for number in range(int(sys.argv[1])):
            task.apply_async((number, body), producer=producer)
