"""A producer, a failing consumer and a reader with pika. The steps are in sys.argv[1]; the last one prints its answer."""
import json, sys, time
import pika

PROPERTIES = ["content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "expiration",
              "message_id", "timestamp", "type", "user_id", "app_id"]


def seen(method, properties, body):
    values = {name: getattr(properties, name) for name in PROPERTIES if getattr(properties, name) is not None}
    return {"exchange": method.exchange, "routing_key": method.routing_key, "properties": values,
            "headers": properties.headers or {}, "body": body.decode("latin-1")}


def take(channel, queue, count):
    until = time.monotonic() + 60
    while count:
        method, properties, body = channel.basic_get(queue)
        if method is not None:
            count -= 1
            yield method, properties, body
            continue
        if time.monotonic() > until:
            sys.exit(f"{queue}: {count} messages are missing")
        time.sleep(0.02)


def declare(channel, step):
    channel.exchange_declare(step["exchange"], "topic", durable=True)
    channel.queue_declare(step["dlq"], durable=True)
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": step["dlq"]}
    channel.queue_declare(step["queue"], durable=True, arguments=dead)
    channel.queue_declare(step["other"], durable=True)
    channel.queue_bind(step["queue"], step["exchange"], step["key"])
    # The keys of CC go through the same exchange.
    channel.queue_bind(step["other"], step["exchange"], step["other"])


def produce(channel, step):
    properties = pika.BasicProperties(headers=step["headers"], **step["properties"])
    channel.basic_publish(step["exchange"], step["key"], step["body"].encode("latin-1"), properties)


def reject(channel, step):
    for method, _, _ in take(channel, step["queue"], 1):
        channel.basic_reject(method.delivery_tag, requeue=False)


def park(channel, step):
    for method, properties, body in take(channel, step["queue"], 1):
        properties.headers = {**(properties.headers or {}), **step["added"]}
        channel.basic_publish("", step["dlq"], body, properties)
        channel.basic_ack(method.delivery_tag)


def read(channel, step):
    messages = []
    for method, properties, body in take(channel, step["queue"], step.get("count", 1)):
        messages.append(seen(method, properties, body))
        channel.basic_ack(method.delivery_tag)
    print(json.dumps(messages))


arguments = json.loads(sys.argv[1])
connection = pika.BlockingConnection(pika.URLParameters(arguments["url"]))
channel = connection.channel()
channel.confirm_delivery()
for step in arguments["steps"]:
    {"declare": declare, "produce": produce, "reject": reject, "park": park, "read": read}[step["do"]](channel, step)
if arguments["steps"][-1]["do"] != "read":
    print("null")
connection.close()
