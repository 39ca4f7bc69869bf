// What pointer, wheel and keys do to a timeline.  Keys work while it has the focus, so that none is taken from others.

const DRAG_PX = 4;
const KEYS = [
  ["+ −", "zoom in and out"],
  ["← →", "pan; with Shift by a whole width"],
  ["↑ ↓", "the lane above or below"],
  [", .", "the span before or after in its lane"],
  ["n p", "next and previous drawn step"],
  ["Home End", "the whole step; everything drawn"],
  ["/", "to the step search; Enter shows the step"],
  ["Enter", "centre on the selected span"],
  ["Esc", "select nothing"],
];

function keysHelp(id) {
  const list = make("dl", { class: "keys", id: `${id}-keys` });
  for (const [keys, text] of KEYS) list.append(make("dt", {}, keys), make("dd", {}, text));
  const more = make("p", { class: "quiet" }, "Pointer: drag pans, a click selects, wheel or pinch zooms once the timeline was clicked, and with Ctrl always.");
  return make("details", { class: "keys-help" }, make("summary", {}, "Keys and pointer"), list, more);
}

function listen(timeline) {
  const { scroller } = timeline;
  scroller.addEventListener("keydown", (event) => onKey(timeline, event));
  scroller.addEventListener("scroll", () => {
    timeline.view.scroll = scroller.scrollTop;
    timeline.later();
  });
  scroller.addEventListener("wheel", (event) => onWheel(timeline, event), { passive: false });
  scroller.addEventListener("pointerdown", (event) => onDown(timeline, event));
  scroller.addEventListener("pointermove", (event) => onMove(timeline, event));
  for (const name of ["pointerup", "pointercancel"]) scroller.addEventListener(name, (event) => onUp(timeline, event));
  scroller.addEventListener("pointerleave", () => hover(timeline, null));
  timeline.search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") scroller.focus();
  });
}

function onKey(timeline, event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const acts = {
    "+": () => timeline.zoom(1 / 1.4),
    "=": () => timeline.zoom(1 / 1.4),
    "-": () => timeline.zoom(1.4),
    ArrowLeft: () => timeline.pan(event.shiftKey ? -1 : -0.15),
    ArrowRight: () => timeline.pan(event.shiftKey ? 1 : 0.15),
    ArrowUp: () => timeline.nextLane(-1),
    ArrowDown: () => timeline.nextLane(1),
    ",": () => timeline.nextSpan(-1),
    ".": () => timeline.nextSpan(1),
    n: () => timeline.next(1),
    p: () => timeline.next(-1),
    Home: () => timeline.home(),
    End: () => timeline.all(),
    "/": () => timeline.search.select(),
    Enter: () => centre(timeline),
    Escape: () => timeline.clear(),
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function centre(timeline) {
  const { selected } = timeline.view;
  if (selected === null) return;
  const { line, span } = selected;
  const length = Math.max(line.end[span] - line.start[span], SHORTEST);
  timeline.view.from = onAxis(line, line.start[span]) - timeline.view.origin(line) - length;
  timeline.view.to = timeline.view.from + 3 * length;
  timeline.moved();
}

function onWheel(timeline, event) {
  const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
  if (isSideways) {
    event.preventDefault();
    timeline.pan((event.deltaX || event.deltaY) / Math.max(timeline.view.width, 1));
    return;
  }
  if (!event.ctrlKey && !event.metaKey && document.activeElement !== timeline.scroller) {
    timeline.hint.hidden = false;
    clearTimeout(timeline.hinted);
    timeline.hinted = setTimeout(() => {
      timeline.hint.hidden = true;
    }, 1500);
    return;
  }
  event.preventDefault();
  const lines = event.deltaMode === 1 ? 16 : 1;
  const amount = Math.min(Math.max(event.deltaY * lines, -240), 240);
  timeline.zoom(Math.exp(amount * (event.ctrlKey ? 0.006 : 0.0025)), share(timeline, placeOf(timeline, event).x));
}

function placeOf(timeline, event) {
  const box = timeline.canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function share(timeline, x) {
  const { gutter, width } = timeline.view;
  return Math.min(Math.max((x - gutter) / Math.max(width - gutter, 1), 0), 1);
}

function onDown(timeline, event) {
  if (event.button !== 0) return;
  if (event.target !== timeline.canvas) return;
  timeline.scroller.focus({ preventScroll: true });
  timeline.pointers.set(event.pointerId, { ...placeOf(timeline, event), moved: 0 });
  timeline.scroller.setPointerCapture(event.pointerId);
}

function onMove(timeline, event) {
  const now = placeOf(timeline, event);
  const pointer = timeline.pointers.get(event.pointerId);
  if (!pointer) {
    hover(timeline, now);
    return;
  }
  const by = now.x - pointer.x;
  pointer.moved += Math.abs(by) + Math.abs(now.y - pointer.y);
  if (timeline.pointers.size === 2) pinch(timeline, event.pointerId, now);
  else if (pointer.moved >= DRAG_PX) {
    timeline.scroller.classList.add("dragging");
    hover(timeline, null);
    timeline.pan(-by / Math.max(timeline.view.width - timeline.view.gutter, 1));
    if (event.pointerType === "mouse") timeline.scroller.scrollTop -= now.y - pointer.y;
  }
  pointer.x = now.x;
  pointer.y = now.y;
}

function pinch(timeline, id, now) {
  const [other] = [...timeline.pointers].filter(([each]) => each !== id).map(([, pointer]) => pointer);
  const pointer = timeline.pointers.get(id);
  const before = Math.max(Math.abs(pointer.x - other.x), 8);
  const after = Math.max(Math.abs(now.x - other.x), 8);
  timeline.zoom(before / after, share(timeline, (now.x + other.x) / 2));
}

function onUp(timeline, event) {
  const pointer = timeline.pointers.get(event.pointerId);
  timeline.pointers.delete(event.pointerId);
  timeline.scroller.classList.remove("dragging");
  if (!pointer || event.type === "pointercancel" || pointer.moved >= DRAG_PX) return;
  const found = timeline.at(pointer.x, pointer.y);
  if (found) timeline.select(found.line, found.span);
  else timeline.clear();
}

function hover(timeline, place) {
  const found = place && timeline.at(place.x, place.y);
  timeline.view.hovered = found || null;
  if (found) showTip(timeline.tip, found.line, found.span, place.x, place.y, timeline.view.width, timeline.height);
  else timeline.tip.hidden = true;
  timeline.later();
}
