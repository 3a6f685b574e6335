"""Reads a trace with Perfetto's official schema and answers questions about it, as JSON.

tests/support/trace/questions.sql asks the same of trace_processor, where there is one.
"""
import json
import sys
from collections import defaultdict

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

BEGIN, END, INSTANT = 1, 2, 3

trace = perfetto.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

tracks, threads, names = {}, {}, {"categories": {}, "events": {}, "notes": {}}
events = []  # of all tracks, in the order of the file
clocks, kernel, begun = set(), defaultdict(int), False
ahead = 0  # of the boot-time clock before the monotonic one
on_cpu = []  # thread, since, until; on the boot-time clock
for packet in trace.packet:
    if packet.HasField("clock_snapshot"):
        readings = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
        clocks |= set(readings)
        ahead = readings.get(perfetto.BUILTIN_CLOCK_BOOTTIME, 0) - readings.get(perfetto.BUILTIN_CLOCK_MONOTONIC, 0)
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        tracks[track.uuid] = track.name
        if track.HasField("thread"):
            threads[track.name] = [track.thread.pid, track.thread.tid]
    if packet.HasField("ftrace_events"):
        for event in packet.ftrace_events.event:
            kernel[event.WhichOneof("event")] += 1
        since = {}
        for event in packet.ftrace_events.event:
            if event.HasField("sched_switch"):
                switch = event.sched_switch
                on_cpu.append([switch.prev_pid, since.pop(switch.prev_pid, 0), event.timestamp])
                since[switch.next_pid] = event.timestamp
        on_cpu += [[thread, at, 1 << 62] for thread, at in since.items()]
    if not packet.HasField("track_event"):
        continue
    cleared = packet.sequence_flags & perfetto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    assert begun or cleared, "the first event does not begin the state of its sequence"
    begun = True
    assert packet.timestamp_clock_id in clocks, "the clock of an event is in no snapshot before it"
    interned = packet.interned_data
    for kind, of in [
        ("categories", interned.event_categories),
        ("events", interned.event_names),
        ("notes", interned.debug_annotation_names),
    ]:
        for entry in of:
            assert entry.iid not in names[kind], "a name is given twice"
            names[kind][entry.iid] = entry.name
    event = packet.track_event
    notes = {}
    for note in event.debug_annotations:
        notes[names["notes"][note.name_iid]] = getattr(note, note.WhichOneof("value"))
    events.append(
        {
            "track": tracks[event.track_uuid],
            "uuid": event.track_uuid,
            "at": packet.timestamp,
            "type": event.type,
            "category": "".join(names["categories"][iid] for iid in event.category_iids),
            "name": names["events"].get(event.name_iid, ""),
            "flows": list(event.flow_ids),
            "notes": notes,
        }
    )

# Slices are balanced and nested: on each track, in the order of time, each end has a beginning, and nothing stays open.
by_track = defaultdict(list)
for event in events:
    by_track[event["uuid"]].append(event)
slices = []
for of_track in by_track.values():
    of_track.sort(key=lambda event: event["at"])  # stable, as trace_processor's
    stack = []
    for event in of_track:
        if event["type"] == BEGIN:
            stack.append(event)
        elif event["type"] == END:
            assert stack, f"an end without a beginning: {event}"
            slices.append({**stack.pop(), "end": event["at"]})
    assert not stack, f"never ended: {stack}"

# Both ends of each flow.
flows = defaultdict(list)
for event in events:
    for flow in event["flows"]:
        flows[flow].append(event)
for flow, ends in flows.items():
    assert len(ends) == 2, f"flow {flow} has {len(ends)} ends"

misses = []
for event in events:
    if event["category"] != "miss":
        continue
    assert event["type"] == INSTANT and event["name"] == "missed: " + event["notes"]["cause"], event
    blockers = [end for flow in event["flows"] for end in flows[flow] if end is not event]
    assert all(end["at"] <= event["at"] and end["category"] == "tick" for end in blockers), event
    misses.append({"task": event["track"], "blockers": [end["track"] for end in blockers], **event["notes"]})

print(
    json.dumps(
        {
            "tracks": tracks,
            "threads": threads,
            "ticks": [
                {
                    "task": one["track"],
                    "boot": one["at"] + ahead,
                    "boot_end": one["end"] + ahead,
                    **one["notes"],
                }
                for one in slices
                if one["category"] == "tick"
            ],
            "runs": [[one["track"], one["name"], one["notes"]["n"]] for one in slices if one["category"] == "run"],
            "slices": {kind: sum(one["category"] == kind for one in slices) for kind in ("sleep", "spin", "run", "wait")},
            "misses": misses,
            "notes": [event["name"] for event in events if event["category"] == "note"],
            "kernel": kernel,
            "on_cpu": sorted(on_cpu, key=lambda part: part[1]),
        }
    )
)
