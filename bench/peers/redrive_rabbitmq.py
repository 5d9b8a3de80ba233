"""Moves dead letters back with aio-pika, 500 confirms in flight: redrive_rabbitmq.py URL FROM TO COUNT.

Prints moved, seconds, seconds of processor, megabytes.
"""

import asyncio
import resource
import sys
import time

import aio_pika
import uvloop

url, source, target, count = *sys.argv[1:4], int(sys.argv[4])


async def main():
    connection = await aio_pika.connect(url)
    channel = await connection.channel(publisher_confirms=True)
    await channel.set_qos(prefetch_count=1000)
    queue = await channel.get_queue(source)
    room, done = asyncio.Semaphore(500), asyncio.Event()
    moved = 0

    async def move(incoming):
        nonlocal moved
        async with room:
            message = aio_pika.Message(
                incoming.body,
                headers=incoming.headers,
                delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
                message_id=incoming.message_id,
            )
            await channel.default_exchange.publish(message, routing_key=target)
            await incoming.ack()
        moved += 1
        if moved == count:
            done.set()

    tasks = set()

    async def receive(incoming):
        task = asyncio.create_task(move(incoming))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    began = time.monotonic()
    tag = await queue.consume(receive)
    await done.wait()
    spent = time.monotonic() - began
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(moved, spent, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
    # An ack has no answer, and a quorum queue forgets those that it has not written when the channel closes: the messages
    # would come again. The end of the consumer is written behind them, and has an answer.
    await queue.cancel(tag)
    await connection.close()


uvloop.run(main())
