"""Writes a trace of tracks and events in Perfetto's format.  The only file that knows the package `perfetto`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from fdprof.capture import NONE
from fdprof.errors import EnvironmentMissing
from fdprof.model import IntColumn

# Packets made before their bytes are taken, which are a tenth of them in memory.
_AT_ONCE = 20_000

Value = str | int | float


class EventType(IntEnum):
    """What an event does on its track."""

    BEGIN = 0  # of a slice; slices of a track nest
    END = 1  # of the slice that began last
    INSTANT = 2
    COUNTER = 3  # the counter has this value from now on


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """The events of one sequence in their order, which is that of time; -1 for what an event does not have."""

    time_ns: IntColumn
    type: IntColumn  # an EventType
    track: IntColumn  # as `Trace.track` gave it
    name: IntColumn  # index into `names`
    category: IntColumn  # index into `categories`
    value: IntColumn  # of a counter
    numbers: Mapping[str, IntColumn]  # annotations by name, of the events that have them
    notes: Mapping[int, Mapping[str, Value]]  # more of them, by event
    flows: Mapping[int, Sequence[int]]  # numbers of the flows that go on from an event
    last_flows: Mapping[int, Sequence[int]]  # of those that end with it
    names: Sequence[str]
    categories: Sequence[str]


class Trace:
    """Collects tracks and events; `take` gives the bytes.  EnvironmentMissing where the package is not installed."""

    def __init__(self) -> None:
        self._builder_type, self._protos = _package()
        self._builder = self._builder_type()
        self._parts: list[bytes] = []
        self._tracks = 0
        self._sequences = 0
        self._processes = 0
        self._flows = 0
        self._order_processes()

    def _order_processes(self) -> None:
        """Have the groups shown in their order, which readers since 0.57 do; older ones put the busiest first."""
        kind = self._protos.TrackDescriptor
        if "process_ordering" in kind.DESCRIPTOR.fields_by_name:
            root = self._builder.add_packet().track_descriptor
            root.uuid = 0
            root.process_ordering = kind.PROCESS_ORDERING_EXPLICIT

    def process(self, name: str, description: str) -> int:
        """Return a new group of tracks; its id is a number of its own, as two captures may be of one process."""
        self._processes += 1
        descriptor = self._descriptor(description=description)
        descriptor.process.pid = self._processes
        descriptor.process.process_name = _text(name)
        descriptor.sibling_order_rank = self._processes
        return int(descriptor.uuid)

    def track(self, parent: int, name: str, rank: int, description: str = "", counts_ns: bool = False) -> int:
        """Return a new track below `parent`, where those of the least rank stand first.

        Not directly below a process: there readers go by the names.
        """
        descriptor = self._descriptor(description=description)
        descriptor.parent_uuid = parent
        descriptor.name = _text(name)
        descriptor.sibling_order_rank = rank
        if counts_ns:
            descriptor.counter.unit = self._protos.CounterDescriptor.UNIT_TIME_NS
        return int(descriptor.uuid)

    def _descriptor(self, description: str) -> Any:
        self._tracks += 1
        descriptor = self._builder.add_packet().track_descriptor
        descriptor.uuid = self._tracks
        descriptor.child_ordering = self._protos.TrackDescriptor.EXPLICIT
        if description:
            descriptor.description = _text(description)
        return descriptor

    def add(self, events: Events) -> None:
        """Write the events as a sequence of their own, whose names are interned."""
        self._sequences += 1
        notes = sorted({name for notes in events.notes.values() for name in notes} - set(events.numbers))
        annotations = {name: number for number, name in enumerate((*events.numbers, *notes), start=1)}
        self._begin_sequence(events, tuple(annotations))
        types = self._protos.TrackEvent
        type_of = (types.TYPE_SLICE_BEGIN, types.TYPE_SLICE_END, types.TYPE_INSTANT, types.TYPE_COUNTER)
        numbers = [(annotations[name], column) for name, column in events.numbers.items()]
        for first in range(0, len(events.time_ns), _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            columns = (events.time_ns, events.type, events.track, events.name, events.category, events.value)
            lists = [column[rows].tolist() for column in columns]
            its_numbers = [(iid, column[rows].tolist()) for iid, column in numbers]
            for index, (time, type_, track, name, category, value) in enumerate(zip(*lists, strict=True)):
                packet = self._builder.add_packet()
                packet.timestamp = time
                packet.trusted_packet_sequence_id = self._sequences
                packet.sequence_flags = self._protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
                event = packet.track_event
                event.type = type_of[type_]
                event.track_uuid = track
                if name != NONE:
                    event.name_iid = name + 1
                if category != NONE:
                    event.category_iids.append(category + 1)
                if type_ == EventType.COUNTER:
                    event.counter_value = value
                for iid, column in its_numbers:
                    if column[index] != NONE:
                        annotation = event.debug_annotations.add()
                        annotation.name_iid = iid
                        annotation.int_value = column[index]
                if its_notes := events.notes.get(first + index):
                    for note, its in its_notes.items():
                        _annotate(event.debug_annotations.add(), annotations[note], its)
                if flows := events.flows.get(first + index):
                    event.flow_ids.extend([self._flows + flow for flow in flows])
                if flows := events.last_flows.get(first + index):
                    event.terminating_flow_ids.extend([self._flows + flow for flow in flows])
            self._pack()
        # An id is one flow's in the whole trace, whichever sequence it is of.
        self._flows += max((max(flows) for flows in events.last_flows.values()), default=0)

    def _begin_sequence(self, events: Events, annotations: Sequence[str]) -> None:
        packet = self._builder.add_packet()
        packet.trusted_packet_sequence_id = self._sequences
        packet.sequence_flags = self._protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        packet.first_packet_on_sequence = True
        interned = packet.interned_data
        for table, texts in (
            (interned.event_names, events.names),
            (interned.event_categories, events.categories),
            (interned.debug_annotation_names, annotations),
        ):
            for iid, text in enumerate(texts, start=1):
                table.add(iid=iid, name=_text(text))

    def _pack(self) -> None:
        # The bytes of two traces one after the other are those of one trace with the packets of both.
        self._parts.append(self._builder.serialize())
        self._builder = self._builder_type()

    def take(self) -> bytes:
        """Return the whole trace."""
        self._pack()
        return b"".join(self._parts)


def _annotate(annotation: Any, iid: int, value: Value) -> None:
    annotation.name_iid = iid
    if isinstance(value, str):
        annotation.string_value = _text(value)
    elif isinstance(value, int):
        annotation.int_value = value
    else:
        annotation.double_value = value


def _text(text: str) -> str:
    """Return a text as the format can hold it: halves of a UTF-16 pair, which JSON can smuggle in, are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _package() -> tuple[Any, Any]:
    """Return the package's builder and its messages."""
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2
        from perfetto.trace_builder.proto_builder import TraceProtoBuilder
    except (ImportError, _version_error()) as error:
        if isinstance(error, ImportError) and error.name == "perfetto":
            message = "a Perfetto trace needs the package perfetto, which is not installed"
            raise EnvironmentMissing(message, "pip install perfetto") from error
        message = f"the package perfetto does not work here: {error}"
        raise EnvironmentMissing(message, "pip install --upgrade perfetto protobuf") from error
    return TraceProtoBuilder, perfetto_trace_pb2


def _version_error() -> type[Exception]:
    """Return what protobuf raises when it is older than the code that it is to run; old ones only fail to import."""
    try:
        from google.protobuf.runtime_version import VersionError
    except ImportError:
        return ImportError
    found: type[Exception] = VersionError
    return found
