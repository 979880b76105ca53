/* Elements of the page. What a model says is set as text, never as markup. */

/** Make an element; attributes that are functions are listeners, children that are strings are text. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "style") Object.assign(element.style, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

const byId = (id) => document.getElementById(id);

/** A list of terms and descriptions; pairs without a description are left out. */
function facts(pairs) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", {}, rows.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));
}

/** A table with a head; numbers stand to the right. */
function table(head, rows) {
  const number = (cell) => (typeof cell === "number" || /^[\d.,+-]+( %| us)?$/.test(cell) ? "number" : null);
  const cellOf = (cell, tag) => (cell instanceof Node ? h(tag, {}, cell) : h(tag, { class: tag === "td" ? number(cell) : null }, String(cell)));
  const line = (cells, tag) => h("tr", {}, cells.map((cell) => cellOf(cell, tag)));
  return h("table", {}, h("thead", {}, line(head, "th")), h("tbody", {}, rows.map((row) => line(row, "td"))));
}

/** A section that can be folded. */
const folded = (title, open, ...children) => h("details", { open }, h("summary", {}, title), ...children);

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (count >= 1024 && unit < 3) (count /= 1024, unit++);
  return `${unit ? count.toFixed(1) : count} ${units[unit]}`;
}

/** A canvas as sharp as the screen, *height* high and as wide as its parent; *draw* gets its context and width. */
function canvas(parent, height, label, draw) {
  const element = h("canvas", { role: "img", "aria-label": label, style: { width: "100%", height: `${height}px` } });
  parent.append(element);
  const width = element.clientWidth || 320, sharp = window.devicePixelRatio || 1;
  element.width = width * sharp;
  element.height = height * sharp;
  const context = element.getContext("2d");
  context.scale(sharp, sharp);
  draw(context, width);
  return element;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
