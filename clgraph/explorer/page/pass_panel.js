/* What a pass did: lists of what is new, changed and gone, and what it said. */

const SHOWN = 200;

function passPanel(panel, pane, go) {
  const { history, step, since } = pane, { name, seconds, notes, count } = history.steps[step];
  const { added, removed, altered } = history.changes(step, since);
  const memory = [...altered].filter(([, words]) => words.every((word) => word === "memory")).length;
  const visible = [...altered].filter(([, words]) => words.some((word) => word !== "memory"));
  const beside = since === step - 1 ? "" : ` beside ${since < 0 ? "nothing" : history.steps[since].name}`;
  const list = (title, mark, rows) =>
    rows.length
      ? [
          folded(
            `${title} (${rows.length})`,
            rows.length <= 40,
            h("ul", { class: mark }, rows.slice(0, SHOWN).map(([at, text]) => h("li", {}, link(history.items[at].id, go), text))),
            rows.length > SHOWN ? h("p", { class: "hint" }, `and ${rows.length - SHOWN} more`) : null,
          ),
        ]
      : [];
  const kind = (at, s) => ` ${history.anyState(s, at).kind}`;
  panel.replaceChildren(
    h("h2", {}, name + beside),
    facts([
      ["changes", step ? String(count) : null],
      ["time", step ? `${(seconds * 1e3).toFixed(2)} ms` : null],
      ["nodes", String(history.items.filter((item, at) => item.type === "node" && history.state(step, at)).length)],
      ["moved in memory alone", memory ? String(memory) : null],
    ]),
    ...list("New", "added", added.map((at) => [at, kind(at, step)])),
    ...list("Changed", "altered", visible.map(([at, words]) => [at, ` ${words.join(", ")}`])),
    ...list("Gone", "removed", removed.map((at) => [at, kind(at, Math.max(0, step - 1))])),
    notes.length
      ? folded(`Notes (${notes.length})`, notes.length <= 40, h("ul", {}, notes.slice(0, SHOWN).map((note) => noteLine(note, history, go))))
      : h("p", { class: "hint" }, added.length + removed.length + altered.size ? "It left no notes." : "It changed nothing."),
  );
}

/** A note, whose first name goes to the node that it is about; a refusal is marked. */
function noteLine(note, history, go) {
  const name = namesIn(note).find((word) => history.position.has(word));
  return h("li", { class: /: not /.test(note) ? "refusal" : "" }, name ? h("button", { class: "link", click: () => go(name) }, "→") : null, ` ${note}`);
}
