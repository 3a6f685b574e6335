"""Prints the slices around one miss that task BLOCKER is to blame for, as lines of text: slices.py TRACE BLOCKER.

Times are milliseconds after the first release that was missed. Needs the Python package perfetto, of which only the schema is used.
"""
import sys
from collections import defaultdict

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

BEGIN, END, INSTANT = 1, 2, 3
MILLION = 1_000_000

trace = perfetto.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
blocker = sys.argv[2]

tracks, events, notes = {}, {}, {}
found, open_slices, misses = [], defaultdict(list), []
for packet in trace.packet:
    if packet.HasField("track_descriptor"):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
    if not packet.HasField("track_event"):
        continue
    events.update((entry.iid, entry.name) for entry in packet.interned_data.event_names)
    notes.update((entry.iid, entry.name) for entry in packet.interned_data.debug_annotation_names)
    event = packet.track_event
    said = {notes[note.name_iid]: getattr(note, note.WhichOneof("value")) for note in event.debug_annotations}
    track, one = tracks[event.track_uuid], (packet.timestamp, events.get(event.name_iid, ""), said)
    if event.type == BEGIN:
        open_slices[track].append(one)
    elif event.type == END:
        at, name, said = open_slices[track].pop()
        found.append((at, packet.timestamp, track, name, said))
    elif event.type == INSTANT:
        found.append((packet.timestamp, packet.timestamp, track, name := one[1], said))
        if said.get("by") == blocker:
            misses.append((packet.timestamp, track))

# The latest that is followed by more of the trace.
last = max(end for _, end, *_ in found)
miss, missed_on = [one for one in misses if one[0] < last - 5 * MILLION][-1]
blocked_by = max(one for one in found if one[2] == f"task {blocker}" and one[3] == "tick" and one[0] < miss)
since, until = blocked_by[0] - 2 * MILLION, blocked_by[1] + 2 * MILLION
zero = blocked_by[0]
rows = [one for one in found if since <= one[0] and one[1] <= until]
width = max(len(track) for _, _, track, _, _ in rows)
print(f"{'from ms':>8}  {'to ms':>7}  {'track':{width}}  slice")
for at, end, track, name, said in sorted(rows, key=lambda one: (one[0], one[2])):
    shown = " ".join(f"{key}={value}" for key, value in said.items())
    to = f"{(end - zero) / MILLION:7.3f}" if end > at else " " * 7
    print(f"{(at - zero) / MILLION:8.3f}  {to}  {track:{width}}  {name} {shown}".rstrip())
