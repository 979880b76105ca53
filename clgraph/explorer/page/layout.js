/* Places of items: ranks over all edges that there ever were, so that a node keeps its place from pass to pass.
 *
 * The ranks are cut into parts where few edges cross; dagre lays out each part, one after another, so that the first
 * view of a large graph waits for its first part only.
 */

const BOX = { width: 176, height: 44, nodesep: 22, ranksep: 30 };
const LASTING = 9;
const LEAST_PART = 30, MOST_PART = 80, ALONE = 250;

class Layout {
  /** Prepare to lay out *history* with the scopes of *scopes* that are collapsed; of one step alone where it is given. */
  constructor(history, scopes, step = null) {
    this.boxes = [];
    this.boxOf = new Array(history.items.length);
    const groups = new Map();
    history.items.forEach((item, at) => {
      if (step !== null && !history.state(step, at)) return;
      const scope = scopes.hiding(at);
      if (scope === null) {
        this.boxOf[at] = this.boxes.push({ members: [at], scope: null, label: item.label, type: item.type }) - 1;
      } else if (groups.has(scope)) {
        this.boxes[(this.boxOf[at] = groups.get(scope))].members.push(at);
      } else {
        this.boxOf[at] = this.boxes.push({ members: [at], scope, label: scope, type: "scope" }) - 1;
        groups.set(scope, this.boxOf[at]);
      }
    });
    this.weights = new Map();
    const lasting = step === null ? history.allEdges() : history.edges(step).map(([from, to]) => [from, to, history.steps.length]);
    for (const [from, to, steps] of lasting) {
      const a = this.boxOf[from], b = this.boxOf[to], key = a * this.boxes.length + b;
      if (a < b) this.weights.set(key, Math.max(this.weights.get(key) ?? 0, steps / history.steps.length));
    }
    this.pairs = [...this.weights.keys()].map((key) => [Math.floor(key / this.boxes.length), key % this.boxes.length]);
    this.rank();
    this.parts = step !== null && this.boxes.length <= ALONE ? [this.boxes.map((_, at) => at)] : this.cut();
    this.ways = new Map();
    this.done = 0;
    this.height = 0;
  }

  /** Give every box a rank: the longest way from an input; what nothing feeds stands just above its first reader. */
  rank() {
    const before = this.boxes.map(() => []), after = this.boxes.map(() => []);
    for (const [a, b] of this.pairs) (before[b].push(a), after[a].push(b));
    const ranks = this.boxes.map(() => 0), floats = this.boxes.map(() => false);
    this.boxes.forEach((box, b) => {
      ranks[b] = Math.max(0, ...before[b].map((a) => ranks[a] + 1));
      floats[b] = box.type !== "input" && before[b].every((a) => floats[a]);
    });
    for (let a = this.boxes.length - 1; a >= 0; a--)
      if (floats[a] && after[a].length) ranks[a] = Math.min(...after[a].map((b) => ranks[b])) - 1;
    const least = Math.min(0, ...ranks);
    this.ranks = ranks.map((rank) => rank - least);
    this.before = before;
  }

  /** Cut the ranks into parts; a part is the boxes of consecutive ranks. */
  cut() {
    const last = Math.max(0, ...this.ranks);
    const at = Array.from({ length: last + 1 }, () => []);
    this.ranks.forEach((rank, box) => at[rank].push(box));
    const crossing = new Array(last + 2).fill(0);
    for (const [a, b] of this.pairs) {
      crossing[this.ranks[a]] += 1;
      crossing[this.ranks[b]] -= 1;
    }
    for (let rank = 1; rank <= last; rank++) crossing[rank] += crossing[rank - 1];
    const parts = [];
    for (let begin = 0; begin <= last; ) {
      let best = begin, size = 0;
      for (let rank = begin; rank <= last && (size < MOST_PART || rank === begin); rank++) {
        size += at[rank].length;
        if (size < LEAST_PART || crossing[rank] <= crossing[best] || best === begin) best = rank;
      }
      parts.push(at.slice(begin, best + 1).flat());
      begin = best + 1;
    }
    return parts;
  }

  /** Lay out parts until *milliseconds* are over; return whether all are done. */
  advance(milliseconds) {
    const end = performance.now() + milliseconds;
    while (this.done < this.parts.length) {
      this.place(this.parts[this.done++]);
      if (performance.now() > end) break;
    }
    return this.done === this.parts.length;
  }

  /** How straight dagre is to draw an edge: those that last through most passes are the graph that one looks at. */
  weight(a, b) {
    return 1 + Math.round(9 * this.weights.get(a * this.boxes.length + b));
  }

  place(part) {
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ rankdir: "TB", nodesep: BOX.nodesep, ranksep: BOX.ranksep, ranker: "longest-path" });
    graph.setDefaultEdgeLabel(() => ({}));
    const inside = new Set(part);
    for (const box of part) graph.setNode(String(box), { width: BOX.width, height: BOX.height });
    for (const b of part) for (const a of this.before[b]) if (inside.has(a)) graph.setEdge(String(a), String(b), { weight: this.weight(a, b) });
    dagre.layout(graph);
    const places = new Map();
    for (const box of part) {
      const { x, y } = graph.node(String(box));
      places.set(box, { x, y, wide: BOX.width, links: [] });
    }
    const bends = this.bends(part, places, graph);
    const rows = Map.groupBy([...places.values(), ...bends], (place) => Math.round(place.y));
    const sorted = [...rows.keys()].sort((a, b) => a - b).map((y) => rows.get(y).sort((a, b) => a.x - b.x));
    straighten(sorted, BOX.nodesep);
    for (const [box, { x, y }] of places) Object.assign(this.boxes[box], { x, y: y + this.height });
    for (const bend of bends) bend.y += this.height;
    this.height += graph.graph().height + BOX.ranksep;
  }

  /** Link what is joined by edges, and return the points at which lasting edges go past other rows. */
  bends(part, places, graph) {
    const bends = [];
    const join = (high, low, weight) => {
      low.links.push({ to: high, weight });
      high.links?.push({ to: low, weight });
    };
    const rows = new Set([...places.values()].map(({ y }) => Math.round(y)));
    for (const b of part)
      for (const a of this.before[b]) {
        const weight = this.weight(a, b) ** 2, high = places.get(a) ?? this.boxes[a], low = places.get(b);
        if (high.x === undefined) continue;
        const inner = places.has(a) && weight > LASTING ? graph.edge(String(a), String(b)).points : [];
        const between = inner.filter(({ y }) => y > high.y + 1 && y < low.y - 1 && rows.has(Math.round(y)));
        const way = between.map(({ x, y }) => ({ x, y, wide: 12, links: [] }));
        if (way.length) this.ways.set(a * this.boxes.length + b, way);
        bends.push(...way);
        const pull = (i) => (!way.length ? weight : i && i < way.length ? 2 * weight : weight / 4);
        [high, ...way].forEach((place, i) => join(place, [...way, low][i], pull(i)));
      }
    return bends;
  }
}
