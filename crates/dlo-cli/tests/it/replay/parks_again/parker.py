"""A consumer that fails every order and parks it without copying any header: it publishes the orders, then parks what comes.

It runs until it is killed. Only the payload goes to the dead-letter queue, with the key on Kafka, and with the message id
on RabbitMQ where `keep_id` says so."""
import json, sys

arguments = json.loads(sys.argv[1])
QUEUE, DLQ, URL = arguments["queue"], arguments["dlq"], arguments["url"]
ORDERS = [(f"C-{n}", f"m-{n}", json.dumps({"order": n}).encode()) for n in range(arguments["orders"])]


def rabbitmq():
    import pika

    def properties(identity):
        return pika.BasicProperties(delivery_mode=2, message_id=identity if arguments["keep_id"] else None)

    def park(channel, method, found, body):
        channel.basic_publish("", DLQ, body, properties(found.message_id))
        channel.basic_ack(method.delivery_tag)

    channel = pika.BlockingConnection(pika.URLParameters(URL)).channel()
    channel.confirm_delivery()
    for _, identity, body in ORDERS:
        channel.basic_publish("", QUEUE, body, properties(identity))
    channel.basic_consume(QUEUE, park)
    channel.start_consuming()


def redis():
    import redis

    server = redis.Redis.from_url(URL)
    try:
        server.xgroup_create(QUEUE, "foreign", id="$", mkstream=True)
    except redis.ResponseError as error:
        if "BUSYGROUP" not in str(error):
            raise
    for _, _, body in ORDERS:
        server.xadd(QUEUE, {"payload": body})
    while True:
        for _, entries in server.xreadgroup("foreign", "f-1", {QUEUE: ">"}, count=10, block=200) or []:
            for identity, fields in entries:
                server.xadd(DLQ, {"payload": fields[b"payload"]})
                server.xack(QUEUE, "foreign", identity)


def kafka():
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": URL})
    consumer = Consumer({"bootstrap.servers": URL, "group.id": "foreign", "auto.offset.reset": "earliest"})
    for key, _, body in ORDERS:
        producer.produce(QUEUE, body, key)
    producer.flush(60)
    consumer.subscribe([QUEUE])
    while True:
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            producer.produce(DLQ, message.value(), message.key())
            producer.flush(60)


{"rabbitmq": rabbitmq, "redis": redis, "kafka": kafka}[arguments["broker"]]()
