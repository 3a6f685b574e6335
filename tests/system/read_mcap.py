"""Reads a recording with other readers than hertzd's: `read_mcap.py FILE`. Prints the messages of each channel."""

import json
import sys
from collections import Counter

from mcap.reader import make_reader
from mcap_protobuf.decoder import DecoderFactory

count: Counter[str] = Counter()
decoders = DecoderFactory()
with open(sys.argv[1], "rb") as file:
    for schema, channel, message in make_reader(file, validate_crcs=True).iter_messages():
        assert schema is not None
        count[channel.topic] += 1
        if channel.message_encoding == "json":
            json.loads(message.data)
        else:
            decode = decoders.decoder_for(channel.message_encoding, schema)
            assert decode is not None, channel.message_encoding
            image = decode(message.data)
            assert (image.width, image.height) == (320, 180) and len(image.data) == image.height * image.step
assert {"steady/ticks", "memory/values", "eye/image"} <= count.keys(), count
print(*(f"{topic} {messages}" for topic, messages in sorted(count.items())))
