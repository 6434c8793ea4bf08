"""Prints the snapshots of a posterior on Kafka as JSON, with Confluent's client and without streaminfer.

pip install numpy 'confluent-kafka[avro,schemaregistry]'
python read_snapshots.py BROKERS REGISTRY_URL TOPIC
"""

import json
import sys

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

brokers, registry_url, topic = sys.argv[1:]
deserialize = AvroDeserializer(SchemaRegistryClient({"url": registry_url}))
consumer = Consumer({"bootstrap.servers": brokers, "group.id": "read-snapshots", "enable.partition.eof": True})
consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

chunks = {}  # chunk number → (version, bytes); most snapshots are a single record, the manifest
while True:
    message = consumer.poll(10.0)
    if message is None or message.error():
        at_end = message is not None and message.error().code() == KafkaError._PARTITION_EOF
        sys.exit(0 if at_end else f"nothing from {brokers}: {message and message.error()}")
    record = deserialize(message.value(), SerializationContext(topic, MessageField.VALUE))
    chunks[record["chunk"]] = (record["version"], record["payload"])
    manifest = record["manifest"]
    if manifest is None:
        continue
    parts = [chunks.get(i, (0, b"")) for i in range(record["chunk"] + 1)]
    if [version for version, _ in parts] != manifest["chunk_versions"]:
        continue  # compaction kept parts of several snapshots; a later manifest completes one
    numbers = np.frombuffer(b"".join(payload for _, payload in parts), "<f8")
    natural = numbers[manifest["n_statistics"] :]
    frontier = {entry["partition"]: entry["position"] for entry in manifest["frontier"]}
    shown = {name: manifest[name] for name in ("name", "kind", "family", "exactness", "n_events")}
    print(json.dumps({**shown, "version": record["version"], "frontier": frontier, "natural": natural.tolist()}))
