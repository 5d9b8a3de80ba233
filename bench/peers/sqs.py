"""Drains an SQS queue into SQLite: sqs.py ENDPOINT QUEUE DATABASE COUNT. Ten at a time are received and deleted, 500
are stored in one commit. Prints stored and seconds.
"""

import sys
import time

import boto3

from store import Store, letter

BATCH = 500
endpoint, queue, database, count = *sys.argv[1:4], int(sys.argv[4])
store = Store(database, every_row=False)
client = boto3.client(
    "sqs", endpoint_url=endpoint, region_name="elasticmq", aws_access_key_id="x", aws_secret_access_key="x"
)
url = client.get_queue_url(QueueName=queue)["QueueUrl"]
began = time.monotonic()
letters, receipts, got = [], [], 0
while got < count:
    answer = client.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5, VisibilityTimeout=60, MessageAttributeNames=["All"]
    )
    messages = answer.get("Messages", [])
    if not messages:
        break
    for message in messages:
        attributes = message.get("MessageAttributes", {})
        headers = {name: value.get("StringValue") for name, value in attributes.items()}
        letters.append(letter(headers, message["Body"]))
        receipts.append(message["ReceiptHandle"])
    got += len(messages)
    if len(letters) >= BATCH or got >= count:
        store.put(letters)
        for at in range(0, len(receipts), 10):
            entries = [{"Id": str(n), "ReceiptHandle": receipt} for n, receipt in enumerate(receipts[at : at + 10])]
            deleted = client.delete_message_batch(QueueUrl=url, Entries=entries)
            assert len(deleted["Successful"]) == len(entries), deleted
        letters, receipts = [], []
print(store.count(), time.monotonic() - began)
