// What every other file here uses: the page's data, elements made of texts, numbers in words, the colours in force.

const DATA = JSON.parse(document.getElementById("data").textContent);
const NOT_OBSERVED = "-";

// Returns a new element; texts become text, never markup.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

function grouped(digits) {
  return digits.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

// 1234567 gives "1,234,567 ns".
function ns(value) {
  return value === null ? NOT_OBSERVED : `${grouped(String(value))} ns`;
}

// 1234567 gives "1,234.6".
function us(value, digits = 1) {
  if (value === null) return NOT_OBSERVED;
  const [whole, rest] = (value / 1000).toFixed(digits).split(".");
  return rest === undefined ? grouped(whole) : `${grouped(whole)}.${rest}`;
}

function size(bytes) {
  return bytes === 1 ? "1 byte" : `${grouped(String(bytes))} bytes`;
}

function counted(number, noun) {
  return `${grouped(String(number))} ${noun}${number === 1 ? "" : "s"}`;
}

// Returns the position of the first entry of a sorted column that is not below the value.
function lowest(column, value, from = 0, to = column.length) {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function nearest(column, value) {
  const at = lowest(column, value);
  if (at === 0) return 0;
  if (at === column.length) return at - 1;
  return value - column[at - 1] <= column[at] - value ? at - 1 : at;
}

// Undoes differences from one entry to the next.
function summed(differences) {
  const column = new Float64Array(differences.length);
  let sum = 0;
  for (let at = 0; at < differences.length; at++) column[at] = sum += differences[at];
  return column;
}

const MEANING_CLASSES = DATA.meanings.map((name) => `m-${name.replaceAll(" ", "-")}`);

// Returns the colours in force; on paper they are always the light ones.
function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const named = ["paper", "raised", "sunken", "ink", "muted", "rule", "strong-rule", "accent", "side-a", "side-b", "bad"];
  return {
    ...Object.fromEntries(named.map((name) => [name.replace("-", "_"), of(name)])),
    meanings: MEANING_CLASSES.map(of),
    on: MEANING_CLASSES.map((name) => (brightness(of(name)) > 0.36 ? "#101215" : "#ffffff")),
  };
}

// Relative luminance, as WCAG 2 defines it, of a colour written #rrggbb.
function brightness(colour) {
  const channel = (at) => {
    const value = parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

// Everything that is drawn in colours, and so is drawn again when they change.
const painted = [];

// Makes the tables behind <details> that stand for a drawing: when one is opened, and before printing.
const fillers = [];

function repaint() {
  for (const paint of painted) paint();
}
