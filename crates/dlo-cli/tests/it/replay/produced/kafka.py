"""A producer, a failing consumer and a reader with confluent-kafka. The steps are in sys.argv[1]; the last one prints its answer."""
import base64, json, sys, time
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

arguments = json.loads(sys.argv[1])
SERVERS = {"bootstrap.servers": arguments["bootstrap"]}


def text(value):
    return None if value is None else value.decode("latin-1")


def raw(value):
    return None if value is None else value.encode("latin-1")


def records(topic, count):
    """The first records of a topic, over its two partitions."""
    consumer = Consumer({**SERVERS, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    found, until = [], time.monotonic() + 60
    while len(found) < count:
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            found.append(message)
        elif time.monotonic() > until:
            sys.exit(f"{topic}: {len(found)} of {count} records")
    consumer.close()
    return found


def declare(step):
    topics = [NewTopic(name, 2, 1) for name in (step["queue"], step["dlq"])]
    admin = AdminClient(SERVERS)  # It must outlive its futures.
    for future in admin.create_topics(topics).values():
        future.result(60)


def send(topic, value, key, headers, partition):
    producer = Producer(SERVERS)
    producer.produce(topic, value, key, partition, headers=headers)
    if producer.flush(60):
        sys.exit("not confirmed")


def produce(step):
    headers = [(name, raw(value)) for name, value in step["headers"]]
    send(step["queue"], raw(step["value"]), raw(step["key"]), headers, step["partition"])


def filled(shape, message):
    """The envelope with the parts of the failed message in place of its variables."""
    value = message.value()
    parts = {"$object": lambda: json.loads(value), "$text": lambda: value.decode(),
             "$base64": lambda: base64.b64encode(value).decode(), "$topic": message.topic,
             "$partition": message.partition, "$offset": message.offset, "$key": lambda: text(message.key()),
             "$headers": lambda: [{"key": name, "value": text(one)} for name, one in message.headers() or []]}
    if isinstance(shape, dict):
        return {name: filled(inner, message) for name, inner in shape.items()}
    return parts[shape]() if isinstance(shape, str) and shape in parts else shape


def park(step):
    """Parks the last record of the queue: in an envelope, with the headers that it had and those that are added."""
    message = records(step["queue"], step["count"])[-1]
    value = message.value()
    if step.get("envelope") is not None:
        value = json.dumps(filled(step["envelope"], message)).encode()
    headers = (message.headers() or []) + [(name, raw(one)) for name, one in step.get("added", [])]
    send(step["dlq"], value, message.key(), headers, message.partition())


def read(step):
    found = records(step["queue"], step["count"])
    print(json.dumps([{"partition": one.partition(), "key": text(one.key()), "value": text(one.value()),
                       "headers": [[name, text(value)] for name, value in one.headers() or []]} for one in found]))


for step in arguments["steps"]:
    {"declare": declare, "produce": produce, "park": park, "read": read}[step["do"]](step)
if arguments["steps"][-1]["do"] != "read":
    print("null")
