/* Everything about one node: what it is after the pass, why it runs as it does, and what the passes did to it. */

/** Fill *panel* with the chosen item of *pane*; *go* is called with the id of an item to go to. */
function nodePanel(panel, pane, go) {
  const { history, selected, step } = pane;
  if (selected === null) return panel.replaceChildren(h("p", { class: "hint" }, "Choose a node."));
  const scope = pane.scopes.hiding(selected);
  if (scope !== null) return panel.replaceChildren(...aboutScope(pane, scope));
  const item = history.items[selected], state = history.anyState(step, selected);
  const gone = history.state(step, selected) === null;
  panel.replaceChildren(
    h("h2", {}, item.label),
    ...(gone ? [h("p", { class: "gone" }, "Not in the program after this pass.")] : []),
    ...(item.type === "node" ? aboutNode(history, item, state, go) : aboutBoundary(history, item)),
  );
}

const link = (name, go) => h("button", { class: "link", click: () => go(name) }, name);

function aboutBoundary(history, item) {
  const made = history.items.flatMap((_, at) => history.anyState(history.steps.length - 1, at).outputs ?? []);
  const found = [...history.graph.inputs, ...made].find(([name]) => name === item.value);
  return [facts([["kind", `${item.type} of the graph`], ["layout", found?.[1]], ["bytes", found && bytes(found[2])]])];
}

function aboutScope(pane, scope) {
  const members = pane.scopes.paths.flatMap((path, at) => ((path.join("/") + "/").startsWith(scope + "/") ? [at] : []));
  const there = members.filter((at) => pane.history.state(pane.step, at));
  const kinds = new Map();
  for (const at of there) {
    const { kind } = pane.history.state(pane.step, at);
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  const open = () => (pane.scopes.open(scope), pane.arrange());
  return [
    h("h2", {}, scope),
    facts([["nodes", `${there.length} after this pass`], ["operators", [...kinds].map(([k, n]) => `${k} (${n})`).join(", ")]]),
    h("button", { click: open }, "Open"),
  ];
}

function aboutNode(history, item, state, go) {
  const report = history.graph.reports[item.id] ?? {};
  const producer = new Map();
  history.items.forEach((other, at) => {
    for (const [value] of history.anyState(history.steps.length - 1, at).outputs ?? []) producer.set(value, other.id);
  });
  const value = (name) => {
    const constant = history.graph.constants[name];
    if (constant) return h("li", {}, `${name} `, h("span", { class: "quiet" }, `constant ${constant}`));
    return h("li", {}, producer.has(name) ? link(producer.get(name), go) : name);
  };
  const times = (history.graph.profile?.commands ?? []).filter((c) => c.node === item.id);
  const seconds = times.reduce((sum, c) => sum + c.seconds, 0);
  const roof = times.reduce((sum, c) => sum + c.roofline, 0);
  return [
    facts([
      ["operator", state.primitive],
      ["fused", state.fused?.length ? h("ul", {}, state.fused.map((f) => h("li", {}, f))) : null],
      ["from ONNX", (state.origin ?? []).join(", ")],
      ["annotation", state.annotation],
      ["device", state.placement ?? "none yet"],
      ["inputs", h("ul", {}, (state.inputs ?? []).map(value))],
      ["outputs", h("ul", {}, (state.outputs ?? []).map(aboutValue))],
      ["kernel", state.kernel],
      ["because", report.because],
      ["estimate", report.estimate && `${micro(report.estimate)} us`],
      ["measured", seconds ? `${micro(seconds)} us` : null],
      ["roofline", seconds ? `${((100 * roof) / seconds).toFixed(0)} % of what the device's peak rates allow` : null],
    ]),
    ...others("Slower", Object.entries(report.slower ?? {}).map(([name, s]) => [name, `${micro(s)} us`])),
    ...others("Refused", Object.entries(history.graph.refusals[report.refusals] ?? {})),
    ...aboutPasses(history, history.position.get(item.id), go),
    ...(report.steps ?? []).filter((s) => history.graph.sources[s]).map((s) => folded(`Source of ${s}`, false, h("pre", {}, history.graph.sources[s]))),
  ];
}

function aboutValue([name, layout, count, place]) {
  const at = place === null || place === undefined ? "" : ` at ${place}`;
  return h("li", {}, `${name} `, h("span", { class: "quiet" }, `${layout}, ${bytes(count)}${at}`));
}

function others(title, rows) {
  if (!rows.length) return [];
  return [folded(`${title} (${rows.length})`, rows.length < 6, table(["kernel", title === "Slower" ? "estimate" : "why"], rows))];
}

/** The passes that changed a node, and the notes that name it. */
function aboutPasses(history, at, go) {
  const rows = [];
  const name = history.items[at].id;
  history.steps.forEach((step, s) => {
    const { added, removed, altered } = history.changes(s, s - 1);
    const what = added.includes(at) ? "added" : removed.includes(at) ? "gone" : altered.get(at)?.join(", ");
    const notes = step.notes.filter((note) => namesIn(note).includes(name));
    if (what || notes.length) rows.push([link(step.name, () => go(name, s)), [what, ...notes].filter(Boolean).join("; ")]);
  });
  return rows.length ? [folded("What the passes did to it", true, table(["pass", "what"], rows))] : [];
}

/** The names of nodes that a note is about: what stands before its first colon, and its last words. */
const namesIn = (note) => note.split(/[:,]? +|,|: /).map((word) => word.replace(/:$/, ""));
