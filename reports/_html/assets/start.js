// Puts the page to work once it has been painted: the theme's switch, links to steps, charts, timelines, printing.

const timelines = new Map();

function startPart(id, part) {
  const article = document.getElementById(id);
  if (!part.sides) return;
  const root = article.querySelector(".timeline-root");
  const isDrawn = root !== null && part.sides.some((side) => side.timeline !== null);
  if (isDrawn) timelines.set(id, new Timeline(root, part.sides, id));
  const show = isDrawn ? (side, position) => timelines.get(id).jump(side, position) : null;
  const [steps, distribution] = ["steps", "distribution"].map((name) => article.querySelector(`[data-chart=${name}]`));
  const known = part.sides.every((side) => side.steps.window_ns.length);
  if (steps && known) stepsChart(steps, part.sides, show);
  if (distribution && known) distributionChart(distribution, part.sides);
}

function startLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.to-step");
    if (!link || !timelines.has(link.dataset.part)) return;
    event.preventDefault();
    timelines.get(link.dataset.part).jump(Number(link.dataset.side), Number(link.dataset.position));
  });
}

function startTheme() {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const tell = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} colours`);
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    tell();
    repaint();
  });
  system.addEventListener("change", () => {
    tell();
    repaint();
  });
  tell();
}

// On paper everything is open and light, and afterwards as it was.
function startPrinting() {
  let closed = [];
  const open = () => {
    closed = [...document.querySelectorAll("details:not([open]):not(.keys-help)")];
    for (const each of closed) each.open = true;
    for (const fill of fillers) fill();
    repaint();
  };
  const restore = () => {
    for (const each of closed) each.open = false;
    closed = [];
    repaint();
  };
  addEventListener("beforeprint", open);
  addEventListener("afterprint", restore);
  matchMedia("print").addEventListener("change", (event) => (event.matches ? repaint() : null));
}

function start() {
  startTheme();
  startLinks();
  startPrinting();
  for (const [id, part] of Object.entries(DATA.parts)) startPart(id, part);
  performance.mark("ready");
  document.documentElement.dataset.ready = "";
}

// The page is painted first; what the script draws follows in the next task.
requestAnimationFrame(() => setTimeout(start));

// For whoever asks the page in its console, and for the tests.
window.fdprofPage = { timelines, colours };
