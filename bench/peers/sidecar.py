"""The sidecar that one writes in Python: sidecar.py AMQP_URL QUEUE PORT CONNECTIONS.

Posts each message to a handler over kept connections and acknowledges it when the answer is good. Runs until it is told to
stop.
"""

import asyncio
import signal
import sys

import aio_pika
import aiohttp
import uvloop

url, queue, port, connections = *sys.argv[1:4], int(sys.argv[4])


async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    connection = await aio_pika.connect(url)
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=4 * connections)
    address = f"http://127.0.0.1:{port}/"
    places = asyncio.Semaphore(connections)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as session:

        async def push(message):
            async with places:
                async with session.post(address, data=message.body) as answer:
                    await answer.read()
                await (message.ack() if answer.status < 300 else message.nack())

        tasks = set()

        async def taken(message):
            task = asyncio.create_task(push(message))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        await (await channel.get_queue(queue)).consume(taken)
        await stop.wait()
    await connection.close()


uvloop.run(main())
