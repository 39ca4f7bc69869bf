// Draws a view on its canvas.  It changes nothing of the view.

const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const SMALL = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
const BLOCKED = DATA.meanings.indexOf("blocked");
const RANGE_ALPHA = 0.3;
// From this many flows in view on only those of the span under the pointer and of the selected one are drawn.
const MOST_FLOWS = 40;

function draw(context, view, layout, height, palette) {
  const { width } = view;
  context.fillStyle = palette.paper;
  context.fillRect(0, 0, width, height);
  const shown = layout.rows.filter((row) => row.y + row.height > view.scroll + RULER && row.y < view.scroll + height);
  context.save();
  context.translate(0, -view.scroll);
  context.save();
  context.beginPath();
  context.rect(view.gutter, view.scroll + RULER, width - view.gutter, height - RULER);
  context.clip();
  for (const line of view.lines) drawSegments(context, view, line, layout, palette);
  const hatch = hatched(context, palette);
  for (const row of shown) {
    if (row.lane) drawLane(context, view, row, palette, hatch);
    else drawSteps(context, view, row, palette);
  }
  drawFlows(context, view, layout, palette);
  context.restore();
  drawLabels(context, view, shown, palette, height);
  context.restore();
  drawRuler(context, view, palette);
}

function hatched(context, palette) {
  if (palette.hatch) return palette.hatch;
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const brush = tile.getContext("2d");
  brush.strokeStyle = palette.paper;
  brush.globalAlpha = 0.5;
  brush.lineWidth = 1.4;
  brush.beginPath();
  for (const shift of [-6, 0, 6]) {
    brush.moveTo(shift, 6);
    brush.lineTo(shift + 6, 0);
  }
  brush.stroke();
  palette.hatch = context.createPattern(tile, "repeat");
  return palette.hatch;
}

function extent(layout, line) {
  const rows = layout.rows.filter((row) => row.line === line);
  const last = rows[rows.length - 1];
  return { top: rows[0].y, bottom: last.y + last.height };
}

// Calls with the segments in view and the times between which they are.
function eachSegment(view, line, visit) {
  const low = view.axisAt(line, view.gutter);
  const high = view.axisAt(line, view.width);
  for (let at = Math.max(lowest(line.axisStarts, low) - 1, 0); at < line.segments.length; at++) {
    const segment = line.segments[at];
    if (segment.axis > high) break;
    if (segment.axisEnd < low) continue;
    const begin = segment.start + Math.max(low - segment.axis, 0);
    const end = segment.start + Math.min(high - segment.axis, segment.end - segment.start);
    visit(segment, begin, end, at);
  }
}

// Shades what is between the drawn steps, and marks where steps begin.
function drawSegments(context, view, line, layout, palette) {
  const { top, bottom } = extent(layout, line);
  let before = null;
  eachSegment(view, line, (segment, begin, end, at) => {
    const x = view.x(line, segment.axis);
    if (before === null && at > 0) before = view.x(line, line.segments[at - 1].axisEnd);
    context.fillStyle = palette.sunken;
    if (before !== null) context.fillRect(before, top, x - before, bottom - top);
    else context.fillRect(view.gutter, top, Math.max(x - view.gutter, 0), bottom - top);
    before = view.x(line, segment.axisEnd);
    context.fillStyle = palette.rule;
    for (let step = segment.firstStep; step <= segment.lastStep; step++) {
      if (line.ends[step] < begin || line.starts[step] > end) continue;
      context.fillRect(Math.round(view.x(line, segment.axis + line.starts[step] - segment.start)), top, 1, bottom - top);
    }
  });
  if (before !== null) {
    const next = line.segments.find((segment) => view.x(line, segment.axis) > before);
    context.fillStyle = palette.sunken;
    const to = next ? Math.min(view.x(line, next.axis), view.width) : view.width;
    if (to > before) context.fillRect(before, top, to - before, bottom - top);
  }
}

function drawSteps(context, view, row, palette) {
  const { line } = row;
  const current = view.anchors[view.lines.indexOf(line)];
  eachSegment(view, line, (segment, begin, end) => {
    for (let step = segment.firstStep; step <= segment.lastStep; step++) {
      if (line.ends[step] < begin || line.starts[step] > end) continue;
      const x = view.x(line, segment.axis + line.starts[step] - segment.start);
      const room = (line.ends[step] - line.starts[step]) * view.scale;
      if (step === current) {
        context.fillStyle = palette.accent;
        context.fillRect(x, row.y + row.height - 3, Math.max(room, 1), 2);
      }
      const from = Math.max(x, view.gutter) + 4;
      if (x + room - from < 26 && step !== current) continue;
      context.font = step === current ? `600 ${FONT}` : FONT;
      const text = `${stepName(line.side, line.positions[step])}  ${us(line.ends[step] - line.starts[step])} µs`;
      const short = context.measureText(text).width < x + room - from ? text : stepName(line.side, line.positions[step]);
      const wide = context.measureText(short).width;
      if (wide > x + room - from && step !== current) continue;
      context.fillStyle = step === current ? palette.ink : palette.muted;
      context.fillText(short, from, row.y + 14);
    }
  });
}

function drawLane(context, view, row, palette, hatch) {
  const { line, lane } = row;
  const isRange = lane.kind === "ranges";
  const inner = row.height - 2;
  context.font = row.height > 17 ? FONT : SMALL;
  eachSegment(view, line, (segment, begin, end) => {
    const offset = view.x(line, segment.axis) - segment.start * view.scale;
    const low = Math.max(view.x(line, segment.axis), view.gutter) - 1;
    const high = Math.min(view.x(line, segment.axisEnd), view.width) + 1;
    let drawnTo = -Infinity;
    let drawnAs = -1;
    for (let at = firstTouching(line, lane, begin); at < lane.spans.length && lane.starts[at] <= end; at++) {
      const span = lane.spans[at];
      if (line.end[span] < begin) continue;
      const left = Math.max(line.start[span] * view.scale + offset, low);
      const right = Math.min(line.end[span] * view.scale + offset, high);
      const meaning = line.meaning[span];
      const isMarked = isSame(view.selected, line, span) || isSame(view.hovered, line, span);
      // Spans narrower than a pixel share it; one that the host is blocked in is not hidden by another.
      if (right < drawnTo && (meaning !== BLOCKED || drawnAs === BLOCKED) && !isMarked) continue;
      const wide = Math.max(right - left, 1);
      context.globalAlpha = isRange ? RANGE_ALPHA : 1;
      context.fillStyle = palette.meanings[meaning];
      context.fillRect(left, row.y + 1, wide, inner);
      context.globalAlpha = 1;
      if (meaning === BLOCKED && wide > 3) {
        context.fillStyle = hatch;
        context.fillRect(left, row.y + 1, wide, inner);
      }
      if (wide > 2) {
        context.fillStyle = isRange ? palette.meanings[meaning] : palette.paper;
        context.fillRect(left, row.y + 1, isRange ? 1.5 : 0.75, inner);
      }
      if (isMarked) outline(context, left, row.y + 1, wide, inner, palette, isSame(view.selected, line, span));
      if (wide > 34) label(context, line.names[line.name[span]], left, wide, row, isRange ? palette.ink : palette.on[meaning], meaning === BLOCKED ? palette.meanings[meaning] : null);
      drawnTo = Math.floor(left + wide);
      drawnAs = meaning;
    }
  });
}

function isSame(marked, line, span) {
  return marked !== null && marked.line === line && marked.span === span;
}

function outline(context, x, y, width, height, palette, isSelected) {
  context.strokeStyle = palette.ink;
  context.lineWidth = isSelected ? 2.5 : 1.5;
  context.strokeRect(x, y, width, height);
}

// Writes as much of a name as there is room for; `behind` is painted under it where the span is hatched.
function label(context, text, left, width, row, colour, behind) {
  const room = width - 9;
  let short = text.length > 160 ? text.slice(0, 160) : text;
  let wide = context.measureText(short).width;
  if (wide > room) {
    short = short.slice(0, Math.max(Math.floor((short.length * room) / wide) - 1, 0));
    if (short.length < 2) return;
    short += "…";
    wide = Math.min(context.measureText(short).width, room);
  }
  if (behind) {
    context.fillStyle = behind;
    context.fillRect(left + 3, row.y + 2, wide + 4, row.height - 4);
  }
  context.fillStyle = colour;
  context.fillText(short, left + 5, row.y + row.height / 2 + 4, room);
}

// Copies hang together with the call that issued them and the wait that ended on them.
function drawFlows(context, view, layout, palette) {
  const rows = new Map(layout.rows.filter((row) => row.lane).map((row) => [row.lane, row]));
  for (const line of view.lines) {
    const low = view.axisAt(line, view.gutter);
    const high = view.axisAt(line, view.width);
    const marked = [view.hovered, view.selected].filter((mark) => mark !== null && mark.line === line);
    const strong = new Set(marked.flatMap((mark) => line.flowsOf.get(mark.span) || []));
    const inView = line.flows.filter((flow) => {
      const first = flow.issue >= 0 ? flow.issue : flow.copy;
      const last = flow.wait >= 0 ? flow.wait : flow.copy >= 0 ? flow.copy : flow.issue;
      return first >= 0 && onAxis(line, line.start[first]) <= high && onAxis(line, line.end[last]) >= low;
    });
    const faint = inView.length <= MOST_FLOWS ? inView.filter((flow) => !strong.has(flow)) : [];
    for (const flow of faint) drawFlow(context, view, line, rows, flow, palette, false);
    for (const flow of strong) drawFlow(context, view, line, rows, flow, palette, true);
    for (const { span } of marked) {
      const call = line.issuedBy[span];
      if (call >= 0) arrow(context, place(view, line, rows, call, "end"), place(view, line, rows, span, "start"), palette.ink, 1.5);
    }
  }
}

function drawFlow(context, view, line, rows, flow, palette, isStrong) {
  const width = isStrong ? 2 : 1;
  context.globalAlpha = isStrong ? 1 : 0.55;
  const { issue, copy, wait } = flow;
  const ends = wait >= 0 ? wait : issue >= 0 && line.meaning[issue] === BLOCKED ? issue : -1;
  if (copy >= 0) {
    if (issue >= 0) arrow(context, place(view, line, rows, issue, "start"), place(view, line, rows, copy, "start"), palette.ink, width);
    if (ends >= 0) arrow(context, place(view, line, rows, copy, "end"), place(view, line, rows, ends, "end"), palette.bad, width);
  } else if (issue >= 0 && wait >= 0) {
    arrow(context, place(view, line, rows, issue, "end"), place(view, line, rows, wait, "end"), palette.bad, width);
  }
  context.globalAlpha = 1;
}

function place(view, line, rows, span, side) {
  const row = rows.get(line.lanes[line.lane[span]]);
  return { x: view.x(line, onAxis(line, side === "start" ? line.start[span] : line.end[span])), row };
}

// Draws from the row of one span to that of another, at whose edge it ends.
function arrow(context, from, to, colour, width) {
  if (!from.row || !to.row) return;
  const down = to.row.y >= from.row.y;
  const y1 = down ? from.row.y + from.row.height - 2 : from.row.y + 2;
  const y2 = to.row === from.row ? y1 : down ? to.row.y + 1 : to.row.y + to.row.height - 1;
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(from.x, y1);
  if (to.row === from.row) context.quadraticCurveTo((from.x + to.x) / 2, y1 + 16, to.x, y2);
  else context.lineTo(to.x, y2);
  context.stroke();
  const tip = (down && to.row !== from.row ? -1 : 1) * 5;
  context.beginPath();
  context.moveTo(to.x, y2);
  context.lineTo(to.x - 3, y2 + tip);
  context.lineTo(to.x + 3, y2 + tip);
  context.fill();
}

// The ranges' rows carry the thread's name, and the calls below are the same thread's.
function labelOf(row) {
  if (!row.lane) return row.line.side.label || "step";
  return row.lane.kind === "calls" ? "calls" : row.lane.label;
}

function drawLabels(context, view, rows, palette, height) {
  context.fillStyle = palette.raised;
  context.fillRect(0, view.scroll, view.gutter, height);
  context.fillStyle = palette.rule;
  context.fillRect(view.gutter - 1, view.scroll, 1, height);
  let before = "";
  for (const row of rows) {
    const text = labelOf(row);
    const isRepeated = text === before && row.lane;
    before = text;
    if (isRepeated) continue;
    context.font = row.lane ? SMALL : `600 ${FONT}`;
    context.fillStyle = row.lane ? palette.muted : palette.ink;
    let short = text;
    while (short.length > 1 && context.measureText(short).width > view.gutter - 14) short = `${short.slice(0, -2)}…`;
    context.fillText(short, 8, row.y + row.height / 2 + 4);
    if (!row.lane) {
      context.fillStyle = palette.rule;
      context.fillRect(0, row.y, view.width, 1);
    }
  }
}

function drawRuler(context, view, palette) {
  context.fillStyle = palette.raised;
  context.fillRect(0, 0, view.width, RULER);
  context.fillStyle = palette.strong_rule;
  context.fillRect(0, RULER - 1, view.width, 1);
  context.font = SMALL;
  context.fillStyle = palette.muted;
  context.fillText("from step's start", 8, 15, view.gutter - 12);
  const wanted = ((view.to - view.from) * 92) / Math.max(view.width - view.gutter, 1);
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
  const unit = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= wanted) || 10 * power;
  // Beyond the steps that follow the aligned ones the axis has breaks, so it tells no time there.
  const spans = view.lines.map((line) => {
    const step = view.anchors[view.lines.indexOf(line)];
    const segment = line.segments.find((each) => each.firstStep <= step && step <= each.lastStep);
    return [segment.axis - view.origin(line), segment.axisEnd - view.origin(line)];
  });
  const low = Math.max(view.from, Math.min(...spans.map(([from]) => from)));
  const high = Math.min(view.to, Math.max(...spans.map(([, to]) => to)));
  for (let tick = Math.ceil(low / unit) * unit; tick <= high; tick += unit) {
    const x = view.gutter + (tick - view.from) * view.scale;
    context.fillStyle = palette.strong_rule;
    context.fillRect(Math.round(x), RULER - 6, 1, 5);
    context.fillStyle = palette.ink;
    const digits = unit >= 1000 ? 0 : unit >= 100 ? 1 : unit >= 10 ? 2 : 3;
    const text = `${tick < 0 ? "−" : ""}${us(Math.abs(tick), digits)} µs`;
    const wide = context.measureText(text).width;
    if (x + 3 + wide < view.width && x >= view.gutter - 1) context.fillText(text, x + 3, 14);
  }
}
