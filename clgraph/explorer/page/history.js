/* The nodes of one program after every step, and what differs between two steps. */

const ABSENT = -1;

class History {
  /** Read a graph of the document: its states are written as changes from step to step. */
  constructor(graph) {
    this.graph = graph;
    const inputs = graph.inputs.map(([name]) => ({ id: `input ${name}`, label: name, type: "input", value: name }));
    const nodes = graph.names.map((name) => ({ id: name, label: name, type: "node" }));
    const outputs = graph.outputs.map(([name, value]) => ({ id: `output ${name}`, label: name, type: "output", value }));
    this.items = [...inputs, ...nodes, ...outputs];
    this.first = inputs.length;
    this.position = new Map(this.items.map((item, at) => [item.id, at]));
    this.rows = [];
    let row = new Array(nodes.length).fill(ABSENT);
    for (const step of graph.steps) {
      row = row.slice();
      for (const [at, state] of step.changes) row[at] = state ?? ABSENT;
      this.rows.push(row);
    }
    this.edgesOf = new Map();
  }

  get steps() {
    return this.graph.steps;
  }

  /** The item at a position after a step: a node's state, an input or output as such, null where there is none. */
  state(step, at) {
    const item = this.items[at];
    if (item.type !== "node") return item;
    const state = this.rows[step][at - this.first];
    return state === ABSENT ? null : this.graph.states[state];
  }

  /** The state that a node has after a step, else the last one that it had before it, else the first one after. */
  anyState(step, at) {
    for (let s = step; s >= 0; s--) if (this.state(s, at)) return this.state(s, at);
    for (let s = step + 1; s < this.rows.length; s++) if (this.state(s, at)) return this.state(s, at);
    return this.items[at];
  }

  /** Edges after a step, as [from, to, name of the value]. */
  edges(step) {
    if (this.edgesOf.has(step)) return this.edgesOf.get(step);
    const producer = new Map();
    this.items.forEach((item, at) => {
      if (item.type === "input") producer.set(item.value, at);
      if (item.type === "node") for (const [value] of this.state(step, at)?.outputs ?? []) producer.set(value, at);
    });
    const found = [];
    this.items.forEach((item, at) => {
      const read = item.type === "output" ? [item.value] : (item.type === "node" && this.state(step, at)?.inputs) || [];
      for (const value of read) if (producer.has(value)) found.push([producer.get(value), at, value]);
    });
    this.edgesOf.set(step, found);
    return found;
  }

  /** Every pair of items that an edge ever joined, forward in the order of the items, with how many steps it lasted. */
  allEdges() {
    const found = new Map(), count = this.items.length;
    let pairs = [];
    this.steps.forEach((step, s) => {
      if (!s || step.changes.length) pairs = this.edges(s).filter(([from, to]) => from < to);
      for (const [from, to] of pairs) found.set(from * count + to, (found.get(from * count + to) ?? 0) + 1);
    });
    return [...found].map(([key, steps]) => [Math.floor(key / count), key % count, steps]);
  }

  /** What is new, gone and different after *step* beside *since*, as positions; words by position for the last. */
  changes(step, since) {
    const added = [], removed = [], altered = new Map();
    if (since >= 0)
      this.rows[step].forEach((now, i) => {
        const before = this.rows[since][i], at = i + this.first;
        if (now === before) return;
        if (before === ABSENT) added.push(at);
        else if (now === ABSENT) removed.push(at);
        else altered.set(at, differences(this.graph.states[before], this.graph.states[now]));
      });
    return { added, removed, altered };
  }
}

const layouts = (state) => (state.outputs ?? []).map(([, layout]) => layout).join();
const places = (state) => (state.outputs ?? []).map(([, , , place]) => place).join();

/** Words for what differs between two states of a node. */
function differences(before, now) {
  const words = [];
  const differ = (key) => JSON.stringify(before[key]) !== JSON.stringify(now[key]);
  if (differ("fused")) words.push("fused");
  if (differ("kind") || differ("primitive")) words.push("operator");
  if (layouts(before) !== layouts(now)) words.push("layout");
  if (differ("placement")) words.push("placement");
  if (differ("kernel")) words.push("kernel");
  if (differ("inputs")) words.push("inputs");
  if (differ("annotation")) words.push("annotation");
  if (places(before) !== places(now)) words.push("memory");
  return words.length ? words : ["other"];
}

/** The memory format, element type and shape in the text of a layout. */
function partsOf(layout) {
  const [dtype = "", format = "", rest = ""] = (layout ?? "").split(":");
  return { dtype, format, shape: rest.split("+")[0] };
}
