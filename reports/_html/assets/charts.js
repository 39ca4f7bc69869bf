// The charts of step times and of their distribution, drawn by uPlot, and the distribution as a table.

const HIGH = 216;
const MOST_BINS = 60;
// Beyond this share of the steps the last bin takes all: a single long step would press the others into one bin.
const SHOWN_SHARE = 0.995;

// Steps are counted in whole numbers.
const WHOLE = [1, 2, 5].flatMap((digit) => [0, 1, 2, 3, 4, 5, 6, 7].map((power) => digit * 10 ** power)).sort((a, b) => a - b);

function sidesColours(palette, sides) {
  return sides.length > 1 ? [palette.side_a, palette.side_b] : [palette.side_b];
}

function axes(palette, sizeOfValues) {
  const line = { stroke: palette.rule, width: 1 };
  const common = { stroke: palette.muted, grid: line, ticks: { ...line, size: 4 }, font: SMALL };
  return [
    { ...common, size: 32, grid: { show: false } },
    { ...common, size: sizeOfValues },
  ];
}

// Makes a chart that is drawn anew when the colours or its width change; `options` returns uPlot's for a palette.
function chart(figure, data, options) {
  const place = figure.querySelector(".plot");
  let plot = null;
  const paint = () => {
    const width = place.clientWidth;
    if (!width) return;
    if (plot) plot.destroy();
    plot = new uPlot({ width, height: HIGH, legend: { show: false }, ...options(colours()) }, data, place);
    for (const canvas of place.querySelectorAll("canvas")) canvas.setAttribute("aria-hidden", "true");
  };
  painted.push(paint);
  let drawn = 0;
  new ResizeObserver(() => {
    if (place.clientWidth === drawn) return;
    drawn = place.clientWidth;
    paint();
  }).observe(place);
  return place;
}

function stepsChart(figure, sides, show) {
  const readout = figure.querySelector(".readout");
  const longest = Math.max(...sides.map((side) => side.steps.window_ns.length));
  const at = Array.from({ length: longest }, (_, position) => position);
  const values = sides.map((side) => at.map((position) => (position < side.steps.window_ns.length ? side.steps.window_ns[position] / 1000 : null)));
  const worst = sides.map((side) => {
    const marked = new Set(side.worst);
    return at.map((position) => (marked.has(position) ? side.steps.window_ns[position] / 1000 : null));
  });
  let pointed = null;
  const options = (palette) => ({
    series: [
      {},
      ...sides.map((side, number) => ({ stroke: sidesColours(palette, sides)[number], width: longest > 3000 ? 0.7 : 1.2, points: { show: longest === 1 } })),
      ...sides.map(() => ({ stroke: palette.bad, width: 0, points: { show: true, size: 8, width: 2, stroke: palette.bad, fill: palette.paper } })),
    ],
    scales: { x: { time: false } },
    axes: axes(palette, 62).map((axis, at) => (at ? axis : { ...axis, incrs: WHOLE, label: "place among the counted steps, from 0", labelSize: 20, labelFont: SMALL })),
    cursor: { drag: { x: true, y: false }, points: { size: 6 } },
    hooks: {
      setCursor: [
        (plot) => {
          pointed = pointedAt(plot, sides);
          readout.textContent = pointed === null ? "\u00a0" : readingOf(sides[pointed.side], pointed.position);
        },
      ],
    },
  });
  const place = chart(figure, [at, ...values, ...worst], options);
  const longestText = sides.map((side) => `${side.label ? `${side.label}: ` : ""}${counted(side.steps.window_ns.length, "step")}`).join("; ");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `Line chart of the step time by step, ${longestText}. The longest steps are listed below.`);
  let down = null;
  place.addEventListener("pointerdown", (event) => {
    down = event.clientX;
  }, true);
  place.addEventListener("click", (event) => {
    if (pointed !== null && show && down !== null && Math.abs(event.clientX - down) < DRAG_PX) show(pointed.side, pointed.position);
  }, true);
  if (sides.length > 1) figure.querySelector("figcaption").after(sideLegend(sides));
}

function sideLegend(sides) {
  const list = make("ul", { class: "legend" });
  sides.forEach((side, at) => {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = `var(--side-${at ? "b" : "a"})`;
    list.append(make("li", {}, swatch, side.label));
  });
  return list;
}

// Returns the step under the cursor: one of the longest where such a mark is near, else that of the nearest line.
function pointedAt(plot, sides) {
  const { left, top, idx } = plot.cursor;
  if (idx === null || idx === undefined || left < 0) return null;
  let best = null;
  sides.forEach((side, number) => {
    for (const position of side.worst) {
      const x = plot.valToPos(position, "x");
      const y = plot.valToPos(side.steps.window_ns[position] / 1000, "y");
      const away = Math.hypot(x - left, y - top);
      if (away < 12 && (best === null || away < best.away)) best = { side: number, position, away };
    }
  });
  if (best !== null) return best;
  sides.forEach((side, number) => {
    if (idx >= side.steps.window_ns.length) return;
    const away = Math.abs(plot.valToPos(side.steps.window_ns[idx] / 1000, "y") - top);
    if (best === null || away < best.away) best = { side: number, position: idx, away };
  });
  return best;
}

function readingOf(side, position) {
  const { window_ns: window, blocked_ns: blocked, idle_ns: idle } = side.steps;
  const parts = [`${side.label ? `${side.label}: ` : ""}${stepName(side, position)}: ${ns(window[position])}`];
  if (blocked !== null) parts.push(`host blocked ${ns(blocked[position])}`);
  if (idle !== null) parts.push(`device idle ${ns(idle[position])}`);
  return parts.join(", ");
}

// Returns bins of equal width over both sides; the last takes what lies beyond nearly all steps.
function binned(sides) {
  const sorted = sides.map((side) => Float64Array.from(side.steps.window_ns).sort());
  const low = Math.min(...sorted.map((column) => column[0]));
  const high = Math.max(...sorted.map((column) => column[column.length - 1]));
  const usual = Math.max(...sorted.map((column) => column[Math.ceil(SHOWN_SHARE * column.length) - 1]));
  const isCut = high > low + 1.5 * (usual - low) && usual > low;
  const to = isCut ? usual : high;
  const most = Math.max(...sorted.map((column) => column.length));
  const bins = high === low ? 1 : Math.min(MOST_BINS, Math.max(Math.ceil(2 * Math.cbrt(most)), 6));
  const width = Math.max((to - low) / bins, 1);
  const edges = Array.from({ length: bins + 1 }, (_, at) => low + at * width);
  const counts = sorted.map((column) =>
    edges.slice(0, -1).map((edge, at) => {
      const end = at === bins - 1 ? (isCut ? lowest(column, edges[bins]) : column.length) : lowest(column, edges[at + 1]);
      return end - lowest(column, edge);
    }),
  );
  const beyond = sorted.map((column, side) => column.length - counts[side].reduce((sum, count) => sum + count, 0));
  return { edges, counts, beyond, totals: sorted.map((column) => column.length), highest: high };
}

function distributionChart(figure, sides) {
  const { edges, counts, beyond, totals, highest } = binned(sides);
  const x = edges.map((edge) => edge / 1000);
  const data = [x, ...counts.map((column, side) => [...column, column[column.length - 1]].map((count) => (100 * count) / totals[side]))];
  const stepped = uPlot.paths.stepped({ align: 1 });
  const readout = figure.querySelector(".readout");
  const usual = beyond.some((count) => count)
    ? `Beyond the right edge: ${sides.map((side, at) => `${side.label ? `${side.label} ` : ""}${counted(beyond[at], "step")}`).join(", ")}, up to ${us(highest)} µs.`
    : "\u00a0";
  readout.textContent = usual;
  const options = (palette) => ({
    series: [
      {},
      ...sides.map((side, number) => {
        const colour = sidesColours(palette, sides)[number];
        return { stroke: colour, width: 1.5, fill: `${colour}33`, paths: stepped, points: { show: false } };
      }),
    ],
    scales: { x: { time: false, range: (_, low, high) => (high - low > 0.01 ? [low, high] : [low - 1, high + 1]) }, y: { range: (_, low, high) => [0, Math.max(high, 1) * 1.06] } },
    axes: axes(palette, 50).map((axis, at) => (at ? { ...axis, values: (_, ticks) => ticks.map((tick) => `${tick} %`) } : axis)),
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    hooks: {
      setCursor: [
        (plot) => {
          const { left } = plot.cursor;
          const at = left < 0 ? -1 : lowest(x, plot.posToVal(left, "x")) - 1;
          readout.textContent = at < 0 || at >= edges.length - 1 ? usual : binReading(sides, edges, counts, at);
        },
      ],
    },
  });
  const place = chart(figure, data, options);
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", "Histogram of the step times. The table below holds the same numbers.");
  if (sides.length > 1) figure.querySelector("figcaption").after(sideLegend(sides));
  const details = figure.querySelector("details");
  const fill = () => {
    if (details.open) details.querySelector(".filled").replaceChildren(distributionTable(sides, edges, counts, beyond));
  };
  details.addEventListener("toggle", fill);
  fillers.push(fill);
}

function binReading(sides, edges, counts, at) {
  const what = sides.map((side, number) => `${side.label ? `${side.label} ` : ""}${counted(counts[number][at], "step")}`).join(", ");
  return `${us(edges[at])} to ${us(edges[at + 1])} µs: ${what}`;
}

function distributionTable(sides, edges, counts, beyond) {
  const rows = edges.slice(0, -1).map((edge, at) => [`${us(edge)} to ${us(edges[at + 1])}`, ...counts.map((column) => grouped(String(column[at])))]);
  if (beyond.some((count) => count)) rows.push(["beyond", ...beyond.map((count) => grouped(String(count)))]);
  return tableOf("steps by step time, µs", ["from and to", ...sides.map((side) => side.label || "steps")], rows, []);
}
