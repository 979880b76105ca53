/* The page: panes, the slider over the passes, panels, search, keys, and links to (pass, node). */

const data = JSON.parse(byId("data").textContent);
const histories = data.graphs.map((graph) => new History(graph));
const PANELS = { pass: passPanel, node: nodePanel, memory: memoryPanel, time: timePanel, roofline: rooflinePanel };
const WORDS = { pass: "Pass", node: "Node", memory: "Memory", time: "Timeline", roofline: "Roofline" };

const page = { tab: data.opens, panes: [], active: 0, linked: true, started: performance.now() };
const pane = () => page.panes[page.active];
const titleOf = (graph) => [graph.model, graph.label].filter(Boolean).join(": ");

const listener = {
  chosen(from) {
    page.active = page.panes.indexOf(from);
    if (from.selected !== null) page.tab = page.tab === "pass" ? "node" : page.tab;
    mirror(from);
    refresh();
  },
  moved(from) {
    if (page.panes.length < 2 || from.history !== page.panes[1 - page.panes.indexOf(from)].history) return;
    const other = page.panes[1 - page.panes.indexOf(from)];
    if (from.tidy || other.tidy) return;
    other.view = { ...from.view };
    other.redraw();
  },
};

/** Choose in the other pane what was chosen in one, where it has it. */
function mirror(from) {
  const other = page.panes[1 - page.panes.indexOf(from)];
  if (!other || from.selected === null) return;
  const at = other.history.position.get(from.history.items[from.selected].id);
  other.selected = at ?? null;
  other.redraw();
}

function addPane(history, step) {
  const element = h("canvas", { tabindex: "0", "aria-label": "graph of the program" });
  byId("panes").append(element);
  page.panes.push(new Pane(element, listener));
  page.panes.at(-1).open(history, step);
  element.addEventListener("keydown", keys);
  element.addEventListener("focus", () => ((page.active = page.panes.findIndex((p) => p.canvas === element)), refresh()));
}

/** Show *step* of the active pane; its differences are to the step before, or to the other pane's where there is one. */
function goTo(step) {
  const { history } = pane();
  step = Math.max(0, Math.min(history.steps.length - 1, step));
  pane().show(step);
  compareSides();
  refresh();
}

/** Let two panes of one program mark what differs between them. */
function compareSides() {
  const [left, right] = page.panes;
  if (!right) return;
  if (left.history === right.history) {
    const [first, last] = left.step <= right.step ? [left, right] : [right, left];
    last.show(last.step, first.step);
    first.show(first.step, first.step);
  } else for (const p of page.panes) p.show(p.step);
}

/** Choose the item called *name*, after *step* where that is given. */
function go(name, step) {
  const at = pane().history.position.get(name);
  if (step !== undefined) goTo(step);
  if (at !== undefined) pane().select(at, true);
}

function refresh() {
  const { history, step, selected } = pane();
  const slider = byId("slider");
  slider.max = history.steps.length - 1;
  slider.value = step;
  byId("step").textContent = `${step ? String(history.steps[step].number).padStart(2, "0") + " " : ""}${history.steps[step].name}`;
  byId("graph").value = histories.indexOf(history);
  byId("passes").value = step;
  for (const tab of byId("tabs").children) {
    const chosen = tab.dataset.tab === page.tab;
    tab.setAttribute("aria-selected", chosen);
    tab.setAttribute("tabindex", chosen ? "0" : "-1");
    if (chosen) byId("panel").setAttribute("aria-labelledby", tab.id);
  }
  PANELS[page.tab](byId("panel"), pane(), go);
  const legend = pane().colours.legend(step);
  byId("legend").replaceChildren(
    ...legend.map(([text, fill]) => h("li", {}, h("i", { style: { background: fill } }), text)),
    legend.length ? "" : h("li", { class: "hint" }, `no ${MODES[pane().mode]} is known here`),
  );
  const named = (p) => [histories.length > 1 ? titleOf(p.history.graph) : "", p.history.steps[p.step].name].filter(Boolean).join(": ");
  byId("captions").replaceChildren(...(page.panes.length > 1 ? page.panes.map((p) => h("span", {}, named(p))) : []));
  page.panes.forEach((p, i) => p.canvas.classList.toggle("active", page.panes.length > 1 && i === page.active));
  byId("sides").setAttribute("aria-pressed", page.panes.length > 1);
  byId("tidy").setAttribute("aria-pressed", pane().tidy);
  byId("status").textContent = selected === null ? "" : `${history.items[selected].label} after ${history.steps[step].name}`;
  const link = new URLSearchParams({ pass: history.steps[step].name, tab: page.tab });
  if (histories.length > 1) link.set("graph", histories.indexOf(history));
  if (selected !== null) link.set("node", history.items[selected].id);
  window.history.replaceState(null, "", `#${link}`);
}

/** Open what the address names: a pass, a node, a panel; without a pass, the program as it is in the end. */
function follow() {
  const link = new URLSearchParams(location.hash.slice(1));
  const found = histories[Number(link.get("graph") ?? 0)] ?? histories[0];
  const named = found.steps.findIndex((s) => s.name === link.get("pass")), step = named < 0 ? found.steps.length - 1 : named;
  if (!page.panes.length) addPane(found, step);
  else if (found !== pane().history || step !== pane().step) pane().open(found, step);
  choices();
  compareSides();
  if (link.get("tab") in PANELS) page.tab = link.get("tab");
  const at = found.position.get(link.get("node"));
  if (at !== undefined) pane().select(at, true);
  refresh();
}

/** List the items whose name, operator, origin or kernel holds the text; those that are called so before the others. */
function search(text) {
  const { history, step } = pane(), wanted = text.trim().toLowerCase();
  const fits = (at) => {
    const item = history.items[at], state = history.anyState(step, at);
    return [item.id, state.primitive, state.kernel, ...(state.origin ?? [])].some((t) => t?.toLowerCase().includes(wanted));
  };
  const name = (at) => history.items[at].label.toLowerCase();
  const rank = (at) => (name(at) === wanted ? 0 : name(at).includes(wanted) ? 1 : 2);
  const found = wanted ? history.items.map((_, at) => at).filter(fits).sort((a, b) => rank(a) - rank(b) || a - b) : [];
  byId("found").replaceChildren(
    ...found.slice(0, 30).map((at) => h("li", {}, h("button", { class: "link", click: () => (closeSearch(), go(history.items[at].id)) }, history.items[at].label), ` ${history.anyState(step, at).kind ?? ""}`)),
    found.length > 30 ? h("li", { class: "hint" }, `and ${found.length - 30} more`) : "",
    wanted && !found.length ? h("li", { class: "hint" }, "nothing is called that") : "",
  );
  return found;
}

function closeSearch() {
  byId("search").value = "";
  byId("found").replaceChildren();
}

function toggleSides() {
  if (page.panes.length > 1) {
    page.panes.pop().canvas.remove();
    page.active = 0;
    goTo(pane().step);
  } else {
    const { history, step } = pane();
    const other = histories.find((g) => g.graph.model !== history.graph.model);
    addPane(other ?? history, other ? other.steps.length - 1 : Math.max(0, step - 1));
    page.panes[1].colour(pane().mode);
    if (!other) for (const p of page.panes) p.arrangeFor(false);
    compareSides();
    for (const p of page.panes) p.fit();
    listener.moved(pane());
    refresh();
  }
}

function toggleGhosts() {
  const shown = !pane().ghosts;
  for (const p of page.panes) (p.ghosts = shown), p.redraw();
  byId("ghosts").setAttribute("aria-pressed", shown);
}

/** Lay out the pass that is looked at alone, or all passes with a place for every node. */
function toggleTidy() {
  const tidy = !pane().tidy;
  for (const p of page.panes) p.arrangeFor(tidy);
  refresh();
}

/** Choose the panel that a key of the row of tabs leads to, as ARIA's pattern of tabs has it. */
function chooseTab(event) {
  const tabs = [...byId("tabs").children], at = tabs.indexOf(event.target), last = tabs.length - 1;
  const to = { ArrowRight: at < last ? at + 1 : 0, ArrowLeft: at ? at - 1 : last, Home: 0, End: last }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  tabs[to].click();
  tabs[to].focus();
}

function keys(event) {
  const act = {
    "]": () => goTo(pane().step + 1),
    "[": () => goTo(pane().step - 1),
    "/": () => byId("search").focus(),
    f: () => pane().fit(true),
    g: toggleGhosts,
    t: toggleTidy,
    s: toggleSides,
    "+": () => pane().zoom(1.25, pane().size().width / 2, pane().size().height / 2),
    "-": () => pane().zoom(0.8, pane().size().width / 2, pane().size().height / 2),
    Escape: () => pane().select(null),
    Enter: () => pane().selected !== null && pane().toggle(pane().layout.boxes[pane().layout.boxOf[pane().selected]]),
  }[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (act) act();
  else if (event.key.startsWith("Arrow")) pane().select(pane().neighbour(event.key), true);
  else return;
  event.preventDefault();
}

function choices() {
  const { history } = pane();
  byId("passes").replaceChildren(
    ...history.steps.map((s, i) => h("option", { value: i }, `${i && s.changes.length ? "● " : ""}${i ? String(s.number).padStart(2, "0") : ""} ${s.name}`)),
  );
}

function start() {
  document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  byId("title").textContent = data.title;
  byId("graph").append(...histories.map((found, i) => h("option", { value: i }, titleOf(found.graph))));
  byId("graph").hidden = histories.length < 2;
  const history = histories.some((found) => found.steps.length > 1);
  for (const element of document.querySelectorAll(".passes")) element.hidden = !history;
  byId("tabs").append(...Object.keys(PANELS).filter((tab) => history || tab !== "pass").map((tab) => h("button", { role: "tab", id: `tab-${tab}`, "data-tab": tab, "aria-controls": "panel", click: () => ((page.tab = tab), refresh()) }, WORDS[tab])));
  const modes = Object.entries(MODES).filter(([mode]) => history || mode !== "changes");
  byId("mode").append(...modes.map(([mode, words]) => h("option", { value: mode }, words)));
  byId("tabs").addEventListener("keydown", chooseTab);
  follow();
  if (!history) pane().colour((byId("mode").value = data.opens in MODES ? data.opens : modes[0][0])), refresh();
  byId("slider").addEventListener("input", (event) => goTo(Number(event.target.value)));
  byId("passes").addEventListener("change", (event) => goTo(Number(event.target.value)));
  byId("back").addEventListener("click", () => goTo(pane().step - 1));
  byId("forth").addEventListener("click", () => goTo(pane().step + 1));
  byId("graph").addEventListener("change", (event) => {
    const found = histories[Number(event.target.value)];
    pane().open(found, found.steps.length - 1);
    choices();
    compareSides();
    refresh();
  });
  byId("mode").addEventListener("change", (event) => (page.panes.forEach((p) => p.colour(event.target.value)), refresh()));
  byId("search").addEventListener("input", (event) => search(event.target.value));
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "Escape") closeSearch();
    if (event.key !== "Enter") return;
    const found = search(event.target.value);
    if (found.length) closeSearch(), go(pane().history.items[found[0]].id);
  });
  byId("sides").addEventListener("click", toggleSides);
  byId("ghosts").addEventListener("click", toggleGhosts);
  byId("tidy").addEventListener("click", toggleTidy);
  byId("whole").addEventListener("click", () => pane().fit(true));
  byId("theme").addEventListener("click", () => {
    const root = document.documentElement;
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    page.panes.forEach((p) => p.redraw());
    refresh();
  });
  byId("wide").addEventListener("click", () => document.body.classList.toggle("narrow"));
  document.addEventListener("keydown", (event) => {
    if (event.target === document.body) keys(event);
  });
  window.addEventListener("hashchange", follow);
}

start();
window.explorer = { page, histories, go, goTo };
