// What part of a timeline is in view: which step both sides are aligned at, from where to where, and which rows.

const GUTTER = 148;
const GUTTER_NARROW = 86;
const RULER = 22;
const HEIGHTS = { ranges: 17, calls: 22, "device idle": 17, stream: 22, "other thread": 17 };
const ORDER = ["ranges", "calls", "device idle", "stream", "other thread"];
const TITLE = 22;
const SHORTEST = 40;

// Returns the rows from top to bottom: for each side its steps, then its lanes.
function rowsOf(lines) {
  const rows = [];
  let y = RULER;
  const add = (row) => {
    rows.push({ ...row, y });
    y += row.height;
  };
  for (const line of lines) {
    add({ line, lane: null, height: TITLE });
    const lanes = line.lanes.map((lane, at) => ({ lane, at })).filter(({ lane }) => lane.spans.length);
    lanes.sort((a, b) => ORDER.indexOf(a.lane.kind) - ORDER.indexOf(b.lane.kind));
    let before = null;
    for (const { lane, at } of lanes) {
      if (before !== null && before !== lane.kind) y += 3;
      before = lane.kind;
      add({ line, lane, at, height: lane.depth && lane.kind !== "ranges" ? HEIGHTS[lane.kind] - 6 : HEIGHTS[lane.kind] });
    }
    y += 8;
  }
  return { rows, height: y };
}

// The view: `from` and `to` are ns on the axis from the start of each line's anchor, a drawn step.
class View {
  constructor(lines) {
    this.lines = lines;
    this.anchors = lines.map(() => 0);
    this.from = 0;
    this.to = 1;
    this.width = 1000;
    this.gutter = GUTTER;
    this.scroll = 0;
    this.selected = null; // {line, span}
    this.hovered = null;
  }

  origin(line) {
    return onAxis(line, line.starts[this.anchors[this.lines.indexOf(line)]]);
  }

  get scale() {
    return (this.width - this.gutter) / (this.to - this.from);
  }

  x(line, axis) {
    return this.gutter + (axis - this.origin(line) - this.from) * this.scale;
  }

  axisAt(line, x) {
    return (x - this.gutter) / this.scale + this.from + this.origin(line);
  }

  // Aligns every line at its drawn step nearest to this position of the analysed steps.
  alignAt(position) {
    this.anchors = this.lines.map((line) => nearest(line.positions, position));
  }

  // Shows the anchors' steps with a little of what is around them.
  showStep() {
    const longest = Math.max(...this.lines.map((line, at) => line.ends[this.anchors[at]] - line.starts[this.anchors[at]]));
    this.from = -0.06 * longest;
    this.to = 1.24 * longest;
  }

  showAll() {
    this.from = Math.min(...this.lines.map((line) => -this.origin(line)));
    this.to = Math.max(...this.lines.map((line) => line.length - this.origin(line)));
  }

  // Zooms about a place of the width, 0 to 1; a factor below 1 shows less time.
  zoom(factor, about = 0.5) {
    const range = this.to - this.from;
    const widest = 1.3 * Math.max(...this.lines.map((line) => line.length));
    const wanted = Math.min(Math.max(range * factor, SHORTEST), Math.max(widest, SHORTEST));
    const fixed = this.from + range * about;
    this.from = fixed - wanted * about;
    this.to = this.from + wanted;
    this.keepInside();
  }

  // Pans by a share of the width.
  pan(share) {
    const by = (this.to - this.from) * share;
    this.from += by;
    this.to += by;
    this.keepInside();
  }

  // Something of the timeline stays in view.
  keepInside() {
    const range = this.to - this.from;
    const low = Math.min(...this.lines.map((line) => -this.origin(line))) - range * 0.8;
    const high = Math.max(...this.lines.map((line) => line.length - this.origin(line))) - range * 0.2;
    this.from = Math.min(Math.max(this.from, low), Math.max(high, low));
    this.to = this.from + range;
  }

  // With one line the step in the middle becomes the current one when the old one has left; the picture stays.
  follow() {
    if (this.lines.length > 1) return;
    const [line] = this.lines;
    const origin = this.origin(line);
    const end = onAxis(line, line.ends[this.anchors[0]]);
    if (this.to > 0 && this.from < end - origin) return;
    this.anchors = [stepAtAxis(line, origin + (this.from + this.to) / 2)];
    const moved = this.origin(line) - origin;
    this.from -= moved;
    this.to -= moved;
  }
}
