"""Tantivy over the error text of letters: tantivy_text.py LETTERS DIRECTORY, with questions on standard input.

LETTERS has a line for each: id, event type, class, status, milliseconds, error text, with tabs between. Says `ready` and the
bytes of its index; then, for each line of words, the newest 50 that have them behind each other: how many, and milliseconds.
A word that ends in `*` may go on, and one that begins with it may have something before it.
"""

import os
import re
import sys
import time

import tantivy

letters, directory = sys.argv[1:]
builder = tantivy.SchemaBuilder()
builder.add_integer_field("id", fast=True)
builder.add_integer_field("failed_at", fast=True)
builder.add_text_field("error")
schema = builder.build()
index = tantivy.Index(schema, path=directory)
writer = index.writer(heap_size=400_000_000)
with open(letters, encoding="utf-8") as lines:
    for line in lines:
        number, _, _, _, failed_at, error = line.rstrip("\n").split("\t")
        writer.add_document(tantivy.Document(id=int(number), failed_at=int(failed_at), error=error))
writer.commit()
writer.wait_merging_threads()
index.reload()
searcher = index.searcher()


def query(words):
    """The cheapest query that answers it."""
    parts = [word.strip("*") for word in words]
    if words == parts:
        return tantivy.Query.phrase_query(schema, "error", words)
    if len(words) > 1 and words[:-1] == parts[:-1] and not words[-1].startswith("*"):
        return tantivy.Query.phrase_prefix_query(schema, "error", parts)
    patterns = [re.sub(r"\*", ".*", word) for word in words]
    if len(words) == 1:
        return tantivy.Query.regex_query(schema, "error", patterns[0])
    return tantivy.Query.regex_phrase_query(schema, "error", patterns)


def newest(words):
    hits = searcher.search(query(words), limit=50, count=False, order_by_field="failed_at").hits
    return searcher.fast_field_values("id", [address for _, address in hits])


print("ready", sum(file.stat().st_size for file in os.scandir(directory)), flush=True)
for line in sys.stdin:
    began = time.perf_counter()
    found = newest(line.split())
    print(len(found), (time.perf_counter() - began) * 1e3, flush=True)
