// One side's timeline: spans by lane, flows by span, and the axis on which the drawn steps lie one behind the other.

// Steps that do not follow one another are this share of a median step apart on the axis.
const GAP_SHARE = 0.08;

function unpacked(sparse, length) {
  const column = new Float64Array(length).fill(-1);
  const rows = summed(sparse.rows);
  sparse.values.forEach((value, at) => {
    column[rows[at]] = value;
  });
  return column;
}

// Returns what the drawing and the words need of a side; null where nothing of it is drawn.
function timelineOf(side, at) {
  const raw = side.timeline;
  if (!raw) return null;
  const start = summed(raw.spans.start);
  const count = start.length;
  const end = Float64Array.from(raw.spans.length, (length, span) => start[span] + length);
  const flowsOf = new Map();
  const { issue, copy, wait } = raw.flows;
  const flows = issue.map((_, row) => ({ issue: issue[row], copy: copy[row], wait: wait[row] }));
  for (const flow of flows) {
    for (const span of [flow.issue, flow.copy, flow.wait]) {
      if (span < 0) continue;
      if (!flowsOf.has(span)) flowsOf.set(span, []);
      flowsOf.get(span).push(flow);
    }
  }
  const line = {
    at,
    side,
    positions: raw.positions,
    starts: raw.starts_ns,
    ends: raw.ends_ns,
    names: raw.names,
    lanes: raw.lanes.map(([kind, label, depth]) => ({ kind, label, depth, spans: [] })),
    start,
    end,
    lane: raw.spans.lane,
    meaning: raw.spans.meaning,
    name: raw.spans.name,
    bytes: unpacked(raw.spans.size_bytes, count),
    issuedBy: unpacked(raw.spans.issued_by, count),
    flows,
    flowsOf,
  };
  for (let span = 0; span < count; span++) line.lanes[line.lane[span]].spans.push(span);
  for (const lane of line.lanes) lane.starts = Float64Array.from(lane.spans, (span) => start[span]);
  line.segments = segmentsOf(line);
  line.axisStarts = line.segments.map((segment) => segment.axis);
  line.segmentStarts = line.segments.map((segment) => segment.start);
  line.length = line.segments[line.segments.length - 1].axisEnd;
  return line;
}

// Returns the stretches of time that are drawn whole: steps that follow one another are one.
function segmentsOf(line) {
  const lengths = line.starts.map((start, step) => line.ends[step] - start).sort((a, b) => a - b);
  const gap = Math.max(Math.round(lengths[lengths.length >> 1] * GAP_SHARE), 1);
  const segments = [];
  line.starts.forEach((start, step) => {
    const last = segments[segments.length - 1];
    const follows = last && line.positions[step] === line.positions[step - 1] + 1 && start === last.end;
    if (follows) {
      last.end = line.ends[step];
      last.axisEnd = last.axis + last.end - last.start;
      last.lastStep = step;
      return;
    }
    const axis = last ? last.axisEnd + gap : 0;
    segments.push({ start, end: line.ends[step], axis, axisEnd: axis + line.ends[step] - start, firstStep: step, lastStep: step });
  });
  return segments;
}

// Returns where a time of a drawn step lies on the axis.
function onAxis(line, time) {
  const found = line.segments[Math.max(lowest(line.segmentStarts, time + 0.5) - 1, 0)];
  return found.axis + Math.min(Math.max(time - found.start, 0), found.end - found.start);
}

// Returns which drawn step lies at a place of the axis; the nearest where there is none.
function stepAtAxis(line, axis) {
  const segment = line.segments[Math.max(lowest(line.axisStarts, axis + 0.5) - 1, 0)];
  const time = segment.start + Math.min(Math.max(axis - segment.axis, 0), segment.end - segment.start);
  const step = lowest(line.starts, time + 0.5) - 1;
  return Math.min(Math.max(step, segment.firstStep), segment.lastStep);
}

// Returns the drawn step that a span belongs to: the one it begins in, else the first that it touches.
function stepOfSpan(line, span) {
  const step = lowest(line.starts, line.start[span] + 0.5) - 1;
  if (step >= 0 && line.start[span] < line.ends[step]) return step;
  return Math.min(step + 1, line.starts.length - 1);
}

// Returns the spans that touch a drawn step, by start.
function spansOfStep(line, step) {
  const found = [];
  for (const lane of line.lanes) {
    for (let at = firstTouching(line, lane, line.starts[step]); at < lane.spans.length; at++) {
      if (lane.starts[at] >= line.ends[step]) break;
      if (line.end[lane.spans[at]] > line.starts[step] || lane.starts[at] >= line.starts[step]) found.push(lane.spans[at]);
    }
  }
  return found.sort((a, b) => line.start[a] - line.start[b] || line.lane[a] - line.lane[b]);
}

// Spans of a lane do not overlap, so the one before the first that begins later is the only one that can reach in.
function firstTouching(line, lane, time) {
  return Math.max(lowest(lane.starts, time) - 1, 0);
}
