// One timeline: builds its controls, follows the pointer, and says which step is shown and how to get one that is not.

class Timeline {
  constructor(root, sides, id) {
    this.root = root;
    this.sides = sides;
    this.lines = sides.map(timelineOf).filter((line) => line !== null);
    this.view = new View(this.lines);
    this.layout = rowsOf(this.lines);
    this.pointers = new Map();
    this.frame = 0;
    this.palette = colours();
    this.build(id);
    this.goTo(this.firstPosition());
    listen(this);
    fillers.push(() => this.fillTable());
    painted.push(() => {
      this.palette = colours();
      this.paint();
    });
    new ResizeObserver(() => this.resize()).observe(this.scroller);
    this.resize();
  }

  // The step that shows the first finding most plainly; without findings the middle one of those drawn.
  firstPosition() {
    const found = this.lines.find((line) => line.side.shown_first !== null && line.positions.includes(line.side.shown_first));
    if (found) return found.side.shown_first;
    const { positions } = this.lines[0];
    return positions[positions.length >> 1];
  }

  build(id) {
    const button = (label, title, act) => make("button", { type: "button", "aria-label": title, title, onclick: act }, label);
    this.search = make("input", { id: `${id}-search`, type: "text", inputmode: "numeric", autocomplete: "off", placeholder: "number" });
    const form = make("form", { class: "tools-form", onsubmit: (event) => this.submit(event) });
    form.append(make("label", { for: `${id}-search` }, "Step "), this.search, " ", make("button", { type: "submit" }, "Show"));
    this.tools = make(
      "div",
      { class: "tools", role: "group", "aria-label": "Timeline controls" },
      button("‹ step", "Previous drawn step", () => this.next(-1)),
      button("step ›", "Next drawn step", () => this.next(1)),
      form,
      make("span", { class: "gap" }),
      button("−", "Zoom out", () => this.zoom(1.6)),
      button("+", "Zoom in", () => this.zoom(1 / 1.6)),
      button("◂", "Pan left", () => this.pan(-0.25)),
      button("▸", "Pan right", () => this.pan(0.25)),
      button("One step", "Show the whole step", () => this.home()),
      button("All", "Show everything drawn", () => this.all()),
    );
    this.status = make("p", { class: "status", role: "status" });
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.spacer = make("div", { class: "spacer" }, this.canvas);
    this.scroller = make("div", {
      class: "canvas-scroll",
      tabindex: "0",
      role: "application",
      "aria-label": "Timeline of the drawn steps. Arrow keys pan, comma and full stop go from span to span.",
      "aria-describedby": `${id}-keys`,
    }, this.spacer);
    this.tip = make("div", { class: "tip", hidden: true });
    this.hint = make("div", { class: "hint", hidden: true }, "Click first, or hold Ctrl, to zoom with the wheel");
    this.box = make("div", { class: "canvas-box" }, this.scroller, this.tip, this.hint);
    this.details = make("div", { class: "details", role: "group", "aria-live": "polite", "aria-label": "Selected span" });
    this.details.append(make("p", { class: "quiet" }, "Nothing is selected: click a span, or press . on the timeline."));
    this.filled = make("div", { class: "filled" });
    this.table = make("details", { class: "as-table", ontoggle: () => this.fillTable() }, make("summary", {}, "The step's spans as a table"), this.filled);
    this.root.append(this.tools, this.status, legendOf(this.lines), this.box, this.details, this.table, keysHelp(id), this.coverage());
  }

  coverage() {
    const parts = this.lines.map((line) => {
      const all = line.side.steps.number.length;
      const of = line.positions.length === all ? `all ${counted(all, "step")}` : `${grouped(String(line.positions.length))} of ${counted(all, "step")}`;
      return `${line.side.label ? `${line.side.label}: ` : ""}${of} drawn`;
    });
    const chosen = this.lines.some((line) => line.positions.length < line.side.steps.number.length);
    const how = chosen ? ": the first, the median, the longest, those of the findings, then evenly spread ones" : "";
    return make("p", { class: "quiet" }, `${parts.join("; ")}${how}.`);
  }

  resize() {
    const width = this.scroller.clientWidth;
    if (!width) return;
    const height = Math.min(this.layout.height, Math.max(window.innerHeight * 0.72, 240), 760);
    this.spacer.style.height = `${this.layout.height}px`;
    this.view.width = width;
    this.view.gutter = width < 640 ? GUTTER_NARROW : GUTTER;
    this.height = Math.ceil(height);
    const ratio = Math.min(window.devicePixelRatio || 1, 3);
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.ratio = ratio;
    this.paint();
  }

  paint() {
    if (!this.height) return;
    const context = this.canvas.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    draw(context, this.view, this.layout, this.height, this.palette);
  }

  // Draws with the next frame, once however often it is asked.
  later() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  moved() {
    const before = this.view.anchors[0];
    this.view.follow();
    if (this.view.anchors[0] !== before) this.tell();
    this.later();
  }

  zoom(factor, about = 0.5) {
    this.view.zoom(factor, about);
    this.moved();
  }

  pan(share) {
    this.view.pan(share);
    this.moved();
  }

  home() {
    this.view.showStep();
    this.later();
  }

  all() {
    this.view.showAll();
    this.later();
  }

  next(by) {
    const [line] = this.lines;
    const step = this.view.anchors[0] + by;
    if (step >= 0 && step < line.positions.length) this.goTo(line.positions[step]);
    else this.say(by > 0 ? "This is the last drawn step." : "This is the first drawn step.");
  }

  // Shows the drawn steps nearest to a position of the analysed steps.
  goTo(position) {
    this.view.alignAt(position);
    this.view.showStep();
    this.tell();
    this.later();
  }

  tell() {
    const parts = this.lines.map((line, at) => {
      const step = this.view.anchors[at];
      const name = stepName(line.side, line.positions[step]);
      return `${line.side.label ? `${line.side.label}: ` : ""}${name}, ${us(line.ends[step] - line.starts[step])} µs`;
    });
    this.status.replaceChildren(parts.join("; "));
    this.fillTable();
  }

  say(text) {
    this.status.replaceChildren(text);
  }

  fillTable() {
    if (!this.table.open) return;
    const tables = this.lines.flatMap((line, at) => stepTable(line, this.view.anchors[at], (span) => this.reveal(line, span)));
    this.filled.replaceChildren(...tables);
  }

  submit(event) {
    event.preventDefault();
    const wanted = this.search.value.trim();
    if (!wanted) return;
    const side = this.lines[0].side;
    const match = /^(?:(\d+)\s*[:/]\s*)?(\d+)$/.exec(wanted);
    if (!match) {
      this.say(`"${wanted}" is no step: give its number${side.steps.block === null ? "" : ", or block:number"}.`);
      return;
    }
    const { number, block } = side.steps;
    const fits = [];
    number.forEach((each, at) => {
      if (each === Number(match[2]) && (match[1] === undefined || (block !== null && block[at] === Number(match[1])))) fits.push(at);
    });
    if (!fits.length) {
      this.say(`There is no step ${wanted}: the numbers are ${Math.min(...number.slice(0, 1))} to ${number[number.length - 1]}.`);
      return;
    }
    const current = this.lines[0].positions[this.view.anchors[0]];
    const drawn = fits.filter((at) => this.lines[0].positions.includes(at));
    const among = drawn.length ? drawn : fits;
    this.jump(this.lines[0].at, among.reduce((best, at) => (Math.abs(at - current) < Math.abs(best - current) ? at : best)), false);
  }

  // Shows a step of a side, or says that it is not drawn, which one is nearest, and how it can be had.
  jump(sideAt, position, focuses = true) {
    const line = this.lines.find((each) => each.at === sideAt);
    if (focuses) {
      this.root.closest("section").scrollIntoView({ block: "start" });
      this.scroller.focus({ preventScroll: true });
    }
    if (line && line.positions.includes(position)) {
      this.goTo(position);
      return;
    }
    const side = this.sides[sideAt];
    const name = `${side.label ? `${side.label}: ` : ""}${stepName(side, position)}`;
    if (!line) {
      this.say(`${name} is not drawn: nothing but the step times is known of this side.`);
      return;
    }
    const at = line.positions[nearest(line.positions, position)];
    const show = make("button", { type: "button", onclick: () => this.goTo(at) }, `Show ${stepName(side, at)}`);
    this.status.replaceChildren(`${name} is not among the steps drawn here. The nearest that is: `, show);
    const command = commandFor(side, position);
    if (command !== null) this.status.append(" To have it drawn: ", make("code", {}, command));
  }

  select(line, span) {
    this.view.selected = { line, span };
    showDetails(this.details, line, span);
    this.later();
  }

  // Selects a span and brings it into view.
  reveal(line, span) {
    const at = onAxis(line, line.start[span]) - this.view.origin(line);
    const end = at + line.end[span] - line.start[span];
    if (end < this.view.from || at > this.view.to) {
      const range = this.view.to - this.view.from;
      this.view.from = at - range * 0.2;
      this.view.to = this.view.from + range;
    }
    const row = this.layout.rows.find((each) => each.lane === line.lanes[line.lane[span]]);
    if (row && (row.y < this.view.scroll + RULER || row.y + row.height > this.view.scroll + this.height)) {
      this.scroller.scrollTop = row.y - this.height / 2;
    }
    this.select(line, span);
  }

  // Selects the next span of the lane of the selected one; without a selection the first call of the step.
  nextSpan(by) {
    const { selected } = this.view;
    if (selected === null) {
      const [line] = this.lines;
      const spans = spansOfStep(line, this.view.anchors[0]);
      const first = spans.find((span) => line.lanes[line.lane[span]].kind === "calls") ?? spans[0];
      if (first !== undefined) this.reveal(line, first);
      return;
    }
    const lane = selected.line.lanes[selected.line.lane[selected.span]];
    const at = lane.spans.indexOf(selected.span) + by;
    if (at >= 0 && at < lane.spans.length) this.reveal(selected.line, lane.spans[at]);
  }

  // Selects the span of the lane above or below that is nearest to the selected one's start.
  nextLane(by) {
    const { selected } = this.view;
    if (selected === null) {
      this.nextSpan(1);
      return;
    }
    const rows = this.layout.rows.filter((row) => row.lane);
    const at = rows.findIndex((row) => row.lane === selected.line.lanes[selected.line.lane[selected.span]]) + by;
    if (at < 0 || at >= rows.length) return;
    const row = rows[at];
    const time = row.line === selected.line
      ? selected.line.start[selected.span]
      : row.line.starts[this.view.anchors[this.lines.indexOf(row.line)]];
    this.reveal(row.line, row.lane.spans[nearest(row.lane.starts, time)]);
  }

  clear() {
    this.view.selected = null;
    this.details.replaceChildren(make("p", { class: "quiet" }, "Nothing is selected."));
    this.later();
  }

  // Returns the span under a place of the canvas; one too narrow to be hit within two pixels counts too.
  at(x, y) {
    if (x < this.view.gutter || y < RULER) return null;
    const top = y + this.view.scroll;
    const row = this.layout.rows.find((each) => each.lane && each.y <= top && top < each.y + each.height);
    if (!row) return null;
    let best = null;
    let distance = 2.5;
    eachSegment(this.view, row.line, (segment, begin, end) => {
      const offset = this.view.x(row.line, segment.axis) - segment.start * this.view.scale;
      const time = (x - offset) / this.view.scale;
      if (time < segment.start - 3 / this.view.scale || time > segment.end + 3 / this.view.scale) return;
      const from = firstTouching(row.line, row.lane, time - 3 / this.view.scale);
      for (let each = from; each < row.lane.spans.length && row.lane.starts[each] <= time + 3 / this.view.scale; each++) {
        const span = row.lane.spans[each];
        const away = Math.max(row.line.start[span] * this.view.scale + offset - x, x - offset - row.line.end[span] * this.view.scale, 0);
        if (away < distance) {
          distance = away;
          best = { line: row.line, span };
        }
      }
    });
    return best;
  }
}

// Returns the command that draws a step with its neighbours; null where it is not known what to read.
function commandFor(side, position) {
  if (side.source === null) return null;
  const blocks = side.steps.block;
  const block = blocks === null ? 0 : new Set(blocks.slice(0, position + 1)).size - 1;
  const begins = blocks === null ? 0 : blocks.indexOf(blocks[position]);
  const at = side.source.first[block] + position - begins;
  return `${side.source.command} --steps ${Math.max(at - 1, 0)}:${at + 2} -o steps.html`;
}
