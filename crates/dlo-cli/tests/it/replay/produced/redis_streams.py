"""A producer, a failing consumer and a reader with redis-py. The steps are in sys.argv[1]; the last one prints its answer."""
import json, sys, time
import redis


def take(server, stream, count):
    until = time.monotonic() + 60
    while True:
        entries = server.xrange(stream)
        if len(entries) >= count:
            return entries
        if time.monotonic() > until:
            sys.exit(f"{stream}: {len(entries)} of {count} entries")
        time.sleep(0.02)


def declare(server, step):
    server.xgroup_create(step["queue"], "workers", id="0", mkstream=True)
    server.xgroup_create(step["dlq"], "dlo-office", id="0", mkstream=True)


def produce(server, step):
    server.xadd(step["queue"], step["fields"])


def park(server, step):
    """Reads an entry in its group, copies all fields, adds its own."""
    until = time.monotonic() + 60
    while not (found := server.xreadgroup("workers", "worker-1", {step["queue"]: ">"}, count=1)):
        if time.monotonic() > until:
            sys.exit(f"{step['queue']}: no entry")
        time.sleep(0.02)
    identity, fields = found[0][1][0]
    added = {name: identity if value == "$id" else value for name, value in step["added"].items()}
    server.xadd(step["dlq"], {**added, **fields} if step.get("first") else {**fields, **added})
    server.xack(step["queue"], "workers", identity)
    server.xdel(step["queue"], identity)


def read(server, step):
    print(json.dumps([list(fields.items()) for _, fields in take(server, step["queue"], step.get("count", 1))]))


arguments = json.loads(sys.argv[1])
server = redis.Redis.from_url(arguments["url"], decode_responses=True)
for step in arguments["steps"]:
    {"declare": declare, "produce": produce, "park": park, "read": read}[step["do"]](server, step)
if arguments["steps"][-1]["do"] != "read":
    print("null")
