"""A table as a Parquet file, which says what it is and what its columns mean."""

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from fdprof.reports._identity import kind_of, source_of
from fdprof.reports.protocol import Reportable

from fdprof.version import VERSION

if TYPE_CHECKING:  # pandas is behind it
    from fdprof.tables import Column, Frame


def parquet_bytes(frame: "Frame", columns: "Sequence[Column]", result: Reportable, holds: str) -> bytes:
    """Return a table as a file; `holds` is what its rows are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from fdprof.tables import INTEGER, MAP, REAL, SCHEMA_VERSION, TEXT, TRUTH

    types = {
        INTEGER: pa.int64(),
        REAL: pa.float64(),
        TRUTH: pa.bool_(),
        TEXT: pa.string(),
        MAP: pa.map_(pa.string(), pa.int64()),
    }
    said = {
        "fdprof.version": VERSION,
        "fdprof.schema_version": str(SCHEMA_VERSION),
        "fdprof.kind": kind_of(result),
        "fdprof.source": source_of(result) or "",
        "fdprof.rows": holds,
    }
    fields = [pa.field(column.name, types[column.dtype], metadata={"meaning": column.meaning}) for column in columns]
    for name in [column.name for column in columns if column.dtype == MAP]:
        frame = frame.assign(**{name: frame[name].map(lambda value: None if value is None else list(value.items()))})
    table = pa.Table.from_pandas(frame, schema=pa.schema(fields), preserve_index=False)
    sink = BytesIO()
    # pandas' own entry stays: by it pandas makes columns with missing integers again.
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **said}), sink)
    return sink.getvalue()
