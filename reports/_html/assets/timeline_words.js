// A timeline in words: the pointer's tip, the details of the selected span, a step's spans as a table, the legend.

// Most rows of the table of a step's spans.
const MOST_ROWS = 400;

function stepName(side, position) {
  const number = side.steps.number[position];
  return side.steps.block === null ? `step ${number}` : `block ${side.steps.block[position]}, step ${number}`;
}

function kindOf(line, span) {
  const { kind } = line.lanes[line.lane[span]];
  const meaning = DATA.meanings[line.meaning[span]];
  if (kind === "ranges") return "range of the host";
  if (kind === "device idle") return `device idle: ${meaning}`;
  if (kind === "stream") return meaning === "copy" ? "copy" : "device work";
  if (kind === "other thread") return "wait of another thread";
  return { blocked: "blocking call", allocate: "allocation", launch: "call" }[meaning] || "call";
}

// Returns what is known of a span: pairs of a term and a text; times are exact.
function factsOf(line, span) {
  const step = stepOfSpan(line, span);
  const begins = line.start[span] - line.starts[step];
  const facts = [
    ["what", kindOf(line, span)],
    ["lane", line.lanes[line.lane[span]].label],
    ["step", stepName(line.side, line.positions[step])],
    ["starts", begins < 0 ? `${ns(-begins)} before the step` : `${ns(begins)} into the step`],
    ["lasts", ns(line.end[span] - line.start[span])],
  ];
  if (line.bytes[span] >= 0) facts.push(["size", size(line.bytes[span])]);
  const call = line.issuedBy[span];
  if (call >= 0) {
    facts.push(["issued by", line.names[line.name[call]]]);
    facts.push(["call returned", before(line.end[call], line.start[span])]);
  }
  for (const flow of (line.flowsOf.get(span) || []).slice(0, 6)) facts.push(...flowFacts(line, span, flow));
  return facts;
}

function before(earlier, later) {
  return later >= earlier ? `${ns(later - earlier)} before it began` : `${ns(earlier - later)} after it began`;
}

function flowFacts(line, span, flow) {
  const facts = [];
  const named = (other) => `${line.names[line.name[other]]}, ${ns(line.end[other] - line.start[other])}`;
  if (flow.copy >= 0 && span !== flow.copy) facts.push(["its copy", named(flow.copy)]);
  if (flow.wait >= 0 && span !== flow.wait) facts.push(["waited for in", named(flow.wait)]);
  if (flow.copy >= 0 && flow.wait >= 0 && span === flow.wait) {
    const after = line.end[flow.wait] - line.end[flow.copy];
    facts.push(["returned", after >= 0 ? `${ns(after)} after that copy's end` : `${ns(-after)} before that copy's end`]);
  }
  return facts;
}

function showTip(tip, line, span, x, y, width, height) {
  tip.replaceChildren(make("strong", {}, line.names[line.name[span]]));
  for (const [term, text] of factsOf(line, span).slice(0, 8)) tip.append(make("div", {}, `${term}: ${text}`));
  tip.hidden = false;
  const left = x + 14 + tip.offsetWidth > width ? Math.max(x - 14 - tip.offsetWidth, 2) : x + 14;
  const top = y + 16 + tip.offsetHeight > height ? Math.max(y - 10 - tip.offsetHeight, 2) : y + 16;
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
}

function showDetails(panel, line, span) {
  const list = make("dl");
  for (const [term, text] of factsOf(line, span)) list.append(make("div", {}, make("dt", {}, term), make("dd", {}, text)));
  panel.replaceChildren(make("p", { class: "span-name" }, line.names[line.name[span]]), list);
}

function legendOf(lines) {
  const used = new Set(lines.flatMap((line) => [...new Set(line.meaning)]));
  const list = make("ul", { class: "legend", "aria-label": "Colours" });
  DATA.meanings.forEach((name, at) => {
    if (used.has(at)) list.append(make("li", {}, make("span", { class: `swatch ${MEANING_CLASSES[at]}` }), name));
  });
  if (lines.some((line) => line.flows.length)) {
    list.append(make("li", { class: "quiet" }, "lines: a copy from its call, and to the wait that ends on it"));
  }
  return list;
}

// Returns a table made of texts; a cell may be an element.
function tableOf(caption, head, rows, words) {
  const named = (at) => (words.includes(at) ? { class: "words" } : {});
  const header = make("tr", {}, ...head.map((text, at) => make("th", { scope: "col", ...named(at) }, text)));
  const body = rows.map((row) =>
    make("tr", {}, ...row.map((cell, at) => (at ? make("td", named(at), cell) : make("th", { scope: "row" }, cell)))),
  );
  const table = make("table", {}, make("caption", {}, caption), make("thead", {}, header), make("tbody", {}, ...body));
  return make("div", { class: "scroller", role: "group", "aria-label": caption, tabindex: "0" }, table);
}

// Returns the spans of a drawn step in order; `choose` is called with the span whose name is clicked.
function stepTable(line, step, choose) {
  const spans = spansOfStep(line, step);
  const rows = spans.slice(0, MOST_ROWS).map((span) => [
    make("button", { type: "button", class: "link", onclick: () => choose(span) }, line.names[line.name[span]]),
    line.lanes[line.lane[span]].label,
    DATA.meanings[line.meaning[span]],
    grouped(String(line.start[span] - line.starts[step])).replace("-,", "-"),
    grouped(String(line.end[span] - line.start[span])),
    line.bytes[span] < 0 ? NOT_OBSERVED : grouped(String(line.bytes[span])),
  ]);
  const label = line.side.label ? `${line.side.label}, ` : "";
  const caption = `${label}${stepName(line.side, line.positions[step])}: ${counted(spans.length, "span")}, by start`;
  const head = ["name", "lane", "meaning", "starts, ns into the step", "lasts, ns", "bytes"];
  const found = [tableOf(caption, head, rows, [0, 1, 2])];
  if (spans.length > MOST_ROWS) found.push(make("p", { class: "quiet" }, `${counted(spans.length - MOST_ROWS, "more span")} are in the drawing only.`));
  return found;
}
